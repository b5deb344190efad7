"""Claims: their requests, and the devices that they hold once they are allocated."""

from copy import deepcopy
from dataclasses import replace
from fractions import Fraction
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.fleet.known_classes import GPU_TYPES
from policies.kubernetes.view import UNKNOWN
from policies.quota.demands.claims import demands_of_claim, demands_of_template, holdings_of_claim
from policies.quota.demands.classes import necessary_conditions
from policies.rules.charges import DeviceDemand, DeviceKind
from policies.rules.settings import DEFAULTS, Quotas
from tests.published import shared_device
from webhook.cluster.manifests import ManifestsView

MIB, GIB = 2**20, 2**30
SETTINGS = DEFAULTS.quota
FREE = Quotas(admin_access="free")
A100 = DeviceKind("NVIDIA-A100-SXM4-80GB", memory=80 * GIB)
H100 = DeviceKind("NVIDIA-H100-80GB-HBM3", memory=81559 * MIB)
SMALL = replace(A100, profile="1g.10gb", gpus=Fraction(1, 7), memory=9728 * MIB)
MIDDLE = replace(A100, profile="2g.20gb", gpus=Fraction(2, 7), memory=19968 * MIB)
LARGE = replace(A100, profile="3g.40gb", gpus=Fraction(1, 2), memory=40192 * MIB)
SLICES = {SMALL, MIDDLE, LARGE}

SMALL_PROFILES = {"1g.5gb", "1g.5gb+me", "1g.10gb", "1g.10gb+me", "2g.10gb"}
"""Of the A100 with 40 GB, and of the A100 and the H100 with 80 GB."""

ATTRIBUTES = 'device.attributes["gpu.nvidia.com"]'
PRODUCT = f"{ATTRIBUTES}.productName"
PROFILE = f"{ATTRIBUTES}.profile"
MEMORY = 'device.capacity["gpu.nvidia.com"].memory'
MIG = "mig.nvidia.com"


def only(claim, view, settings=SETTINGS):
    (demand,) = demands_of_claim(claim, view, settings).demands
    return demand


def kinds(demand):
    return {kind for choice in demand.choices for kind in choice.kinds}


def test_request_could_get_any_device_of_its_class(claim, request_for, example):
    demand = only(claim(request_for(count=2)), example())
    assert demand == DeviceDemand(2, frozenset({A100, H100}), True, None, frozenset({DeviceKind("")}))


def test_each_request_is_a_demand(claim, request_for, example):
    wanted = claim(request_for(), request_for(MIG, name="slice", count=3))
    assert [demand.count for demand in demands_of_claim(wanted, example(), SETTINGS).demands] == [1, 3]


def test_more_requests_than_kubernetes_stores_do_not_count(claim, request_for, example):
    many = claim(*(request_for(name=f"gpu-{number}") for number in range(40)))
    assert len(demands_of_claim(many, example(), SETTINGS).demands) == 32


def test_names_of_capacities_that_no_device_has_cost_little(claim, request_for, example):
    names = {"memory": "1Gi", **{f"capacity-{number}": "1" for number in range(20_000)}}
    many = claim(*(request_for(name=f"gpu-{number}", capacity={"requests": names}) for number in range(32)))
    view = example()
    start = process_time()
    assert len(demands_of_claim(many, view, SETTINGS).demands) == 32
    assert process_time() - start < 5


def test_mig_class_is_open_for_slices_only(claim, request_for, example):
    demand = only(claim(request_for(MIG)), example())
    assert demand.kinds == SLICES
    assert demand.is_open
    assert all(kind.profile and not kind.product for kind in demand.unseen)


@pytest.mark.parametrize(
    ("device_class", "text", "expected", "is_open"),
    [
        ("gpu.nvidia.com", f'{PRODUCT} == "NVIDIA H100 80GB HBM3"', {H100}, False),
        ("gpu.nvidia.com", f'{PRODUCT}.replace(" ", "-") in ["NVIDIA-H100-80GB-HBM3"]', {H100}, False),
        ("gpu.nvidia.com", f'{PRODUCT}.lowerAscii() == "nvidia h100 80gb hbm3"', {H100}, False),
        ("gpu.nvidia.com", f'{PRODUCT}.startsWith("NVIDIA H100")', {H100}, True),
        ("gpu.nvidia.com", f'{PRODUCT} == "NVIDIA H100 80GB HBM3" || true', {A100, H100}, True),
        ("gpu.nvidia.com", f'{MEMORY}.compareTo(quantity("79Gi")) > 0', {A100, H100}, True),
        (MIG, f'{PROFILE} == "1g.10gb"', {SMALL}, True),
        (MIG, f'{PROFILE} in ["1g.10gb", "2g.20gb"] && {PRODUCT} == "NVIDIA A100-SXM4-80GB"', {SMALL, MIDDLE}, False),
        (MIG, f'{MEMORY}.compareTo(quantity("30Gi")) > 0', {LARGE}, True),
    ],
)
def test_selectors_narrow_kinds(claim, request_for, example, device_class, text, expected, is_open):
    demand = only(claim(request_for(device_class, text)), example())
    assert (demand.kinds, demand.is_open) == (expected, is_open)


def test_any_mig_device_is_one_of_the_gpus_of_the_cluster(claim, request_for, example):
    """Not the largest that NVIDIA sells: another layout of the A100 or the H100 has at most their memory."""
    unseen = only(claim(request_for(MIG)), shared(example(), "")).unseen
    assert max(unseen, key=lambda kind: kind.memory) == DeviceKind("", "7g.80gb", Fraction(1), 80 * GIB)
    assert {kind.profile for kind in unseen} >= {"1g.10gb", "1g.20gb", "3g.40gb", "7g.80gb"}
    assert not {kind.profile for kind in unseen} & {"1g.6gb", "7g.141gb", "7g.278gb"}


def test_memory_of_any_mig_device_is_unknown_where_no_gpu_can_be_cut(claim, request_for, example):
    classes = ManifestsView([*example().list("DeviceClass")])
    unseen = only(claim(request_for(MIG)), classes).unseen
    assert {kind.memory for kind in unseen} == {None}
    assert max(kind.gpus for kind in unseen) == 1


@pytest.mark.parametrize(
    ("text", "profiles", "most"),
    [
        (f'{MEMORY}.compareTo(quantity("12Gi")) < 0', SMALL_PROFILES, 10 * GIB + GIB // 2),
        (f'{MEMORY}.isLessThan(quantity("10Gi"))', SMALL_PROFILES, 10 * GIB),
        (
            f'quantity("19968Mi") == {MEMORY}',
            SMALL_PROFILES | {"1g.20gb", "2g.20gb", "3g.20gb", "4g.20gb"},
            19968 * MIB,
        ),
    ],
)
def test_less_memory_narrows_unseen_devices(claim, request_for, example, text, profiles, most):
    unseen = only(claim(request_for(MIG, text)), example()).unseen
    assert {kind.profile for kind in unseen} == profiles
    assert max(kind.memory for kind in unseen) == most


def test_less_memory_bounds_a_whole_gpu_that_is_not_there_yet(claim, request_for, example):
    demand = only(claim(request_for("gpu.nvidia.com", f'{MEMORY}.compareTo(quantity("24Gi")) <= 0')), example())
    assert (demand.kinds, demand.unseen) == (frozenset(), {DeviceKind("", memory=24 * GIB)})


@pytest.mark.parametrize(
    "text",
    [
        f'{MEMORY}.compareTo(quantity("12Gi")) > 0',
        f'{MEMORY}.compareTo(quantity("12Gi")) < 0 || true',
        f'{MEMORY}.compareTo(quantity("many")) < 0',
    ],
)
def test_other_conditions_on_memory_bound_nothing(claim, request_for, example, text):
    assert max(kind.memory for kind in only(claim(request_for(MIG, text)), example()).unseen) == 80 * GIB


def test_profile_narrows_unseen_devices(claim, request_for, example):
    demand = only(claim(request_for(MIG, f'{PROFILE} == "3g.40gb"')), example())
    assert demand.unseen == {DeviceKind("", "3g.40gb", Fraction(1, 2), 40 * GIB + GIB // 2)}


def test_profile_that_no_gpu_has_is_charged_as_a_whole_gpu_of_any_product(claim, request_for, example):
    assert only(claim(request_for(MIG, f'{PROFILE} == "half"')), example()).unseen == {DeviceKind("", "half")}


def test_product_that_no_slice_shows_is_charged_by_its_name(claim, request_for, example):
    text = f'{PRODUCT} in ["NVIDIA H200", "NVIDIA H100 80GB HBM3"]'
    demand = only(claim(request_for("gpu.nvidia.com", text)), example())
    assert (demand.kinds, demand.is_open) == ({H100, DeviceKind("NVIDIA-H200", memory=141 * GIB)}, False)


def test_selector_that_renames_products_closes_nothing(claim, request_for, example):
    """It matches an H200 that is not there yet, and speaks of a T4."""
    text = f'{PRODUCT}.replace("NVIDIA H200", "Tesla T4") == "Tesla T4"'
    assert only(claim(request_for("gpu.nvidia.com", text)), example()).is_open


def test_selectors_that_do_not_compile_or_are_too_much_leave_everything(claim, request_for, example):
    for texts in (["device."], [f'{PRODUCT} == "{"x" * 9000}"', f'{PRODUCT} != "{"y" * 9000}"']):
        demand = only(claim(request_for("gpu.nvidia.com", *texts)), example())
        assert (demand.kinds, demand.is_open) == ({A100, H100}, True)


@pytest.mark.parametrize("name", ["compute-domain-daemon.nvidia.com", "compute-domain-default-channel.nvidia.com"])
def test_other_drivers_cost_nothing(claim, request_for, example, name):
    assert demands_of_claim(claim(request_for(name)), example(), SETTINGS) == ((), ())


def test_all_devices_are_those_of_the_node_that_has_most(claim, request_for, example):
    demand = only(claim(request_for(allocationMode="All")), example())
    assert {(choice.count, *choice.kinds) for choice in demand.choices if not choice.is_open} == {(2, A100), (8, H100)}
    (beyond,) = (choice for choice in demand.choices if choice.is_open)
    assert (beyond.count, beyond.kinds, beyond.unseen) == (8, frozenset(), {DeviceKind("")})


def test_all_devices_of_a_node_with_several_kinds_are_counted_together(claim, request_for, example):
    text = f'{PRODUCT} == "NVIDIA A100-SXM4-80GB"'
    demand = only(claim(request_for(MIG, text, allocationMode="All")), example())
    assert {choice.kinds: (choice.count, choice.is_open) for choice in demand.choices} == {
        frozenset(SLICES): (8, False),
        frozenset({SMALL, LARGE}): (9, False),
    }


def test_all_devices_of_an_unseen_kind_are_the_most_of_a_claim(claim, request_for, example):
    text = f'{PRODUCT} == "NVIDIA H200"'
    demand = only(claim(request_for("gpu.nvidia.com", text, allocationMode="All")), example())
    assert (demand.count, demand.kinds) == (32, {DeviceKind("NVIDIA-H200", memory=141 * GIB)})


def test_prioritized_list_is_one_demand_with_alternatives(claim, example):
    wanted = {
        "name": "gpu",
        "firstAvailable": [
            {
                "name": "large",
                "deviceClassName": "gpu.nvidia.com",
                "selectors": [{"cel": {"expression": f'{PRODUCT} == "NVIDIA H100 80GB HBM3"'}}],
            },
            {"name": "domain", "deviceClassName": "compute-domain-daemon.nvidia.com"},
            {"name": "small", "deviceClassName": MIG, "count": 7},
        ],
    }
    demand = only(claim(wanted), example())
    assert [(choice.count, choice.kinds) for choice in demand.choices] == [(1, {H100}), (7, SLICES)]


def test_admin_access_is_charged_unless_settings_say_otherwise(claim, request_for, example):
    wanted = claim(request_for(adminAccess=True))
    assert only(wanted, example()).count == 1
    assert demands_of_claim(wanted, example(), FREE).demands == ()


def test_first_version_of_the_api_has_requests_without_exactly(claim, example):
    wanted = claim({"name": "gpu", "deviceClassName": MIG, "count": 2}, version="v1beta1")
    assert (only(wanted, example()).count, only(wanted, example()).kinds) == (2, SLICES)


def test_class_that_does_not_exist_is_reported_and_charged_at_the_most(claim, request_for, example):
    demands, (reported,) = demands_of_claim(claim(request_for("gpus.nvidia.com", count=2)), example(), SETTINGS)
    (demand,) = demands
    assert (demand.count, demand.kinds, demand.is_open) == (2, {A100, H100, *SLICES}, True)
    assert DeviceKind("") in demand.unseen
    assert str(reported.path) == "spec.devices.requests[0].exactly.deviceClassName"
    assert (reported.message, reported.remedy) == (
        'there is no DeviceClass "gpus.nvidia.com", so its GPUs are unknown; the most that they can be is charged',
        'write "gpu.nvidia.com"',
    )


class Blind(ManifestsView):
    """A view of nothing."""

    def list(self, kind, namespace=""):
        return UNKNOWN

    def derive_each(self, kind, function):
        return UNKNOWN


def test_where_nothing_can_be_seen_the_most_is_charged_silently(claim, request_for):
    demands, problems = demands_of_claim(claim(request_for(count=2)), Blind([]), SETTINGS)
    assert [(demand.count, demand.kinds, demand.is_open) for demand in demands] == [(2, frozenset(), True)]
    assert problems == ()


def test_template_requests_what_its_claims_do(claim, template, request_for, example):
    assert demands_of_template(template(request_for(MIG)), example(), SETTINGS, None) == demands_of_claim(
        claim(request_for(MIG)), example(), SETTINGS
    )


@pytest.mark.parametrize("devices", [None, {}, {"requests": "all"}, {"requests": [7, {}, {"exactly": []}]}])
def test_spec_without_requests_requests_nothing(claim, example, devices):
    empty = claim() | {"spec": {"devices": devices}}
    assert demands_of_claim(empty, example(), SETTINGS) == ((), ())


def allocated(*results):
    return {"allocation": {"devices": {"results": list(results)}}}


def result(pool="gpu-a100-01", device="gpu-0", request="gpu", driver="gpu.nvidia.com", **fields):
    return {"request": request, "driver": driver, "pool": pool, "device": device, **fields}


def test_allocated_claim_holds_its_devices(claim, request_for, example):
    results = [
        result(),
        result(device="gpu-1"),
        result("gpu-a100-mig-01", "gpu-0-mig-3g40gb-9-4", "slice"),
        result("domain", "channel-0", "channel", "compute-domain.nvidia.com"),
    ]
    wanted = claim(request_for(count=2), request_for(MIG, name="slice"), status=allocated(*results))
    assert holdings_of_claim(wanted, example(), SETTINGS, "batch") == (
        DeviceDemand(2, frozenset({A100}), priority_class="batch"),
        DeviceDemand(1, frozenset({LARGE}), priority_class="batch"),
    )


def test_claim_without_allocation_holds_what_it_requests(claim, request_for, example):
    wanted = claim(request_for(count=2), status={"reservedFor": []})
    assert holdings_of_claim(wanted, example(), SETTINGS) == demands_of_claim(wanted, example(), SETTINGS).demands


def test_allocation_of_nothing_holds_nothing(claim, request_for, example):
    assert holdings_of_claim(claim(request_for(), status={"allocation": {}}), example(), SETTINGS) == ()


def test_device_that_is_gone_counts_as_the_most_its_request_could_get(claim, request_for, example):
    wanted = claim(request_for(MIG, count=2), status=allocated(result(), result(device="gone")))
    exact, lost = holdings_of_claim(wanted, example(), SETTINGS)
    assert exact == DeviceDemand(1, frozenset({A100}), priority_class=None)
    assert (lost.count, lost.kinds, lost.is_open) == (1, SLICES, True)


def test_gone_device_of_an_alternative_counts_as_that_alternative(claim, example):
    alternatives = [{"name": "a", "deviceClassName": "gpu.nvidia.com"}, {"name": "b", "deviceClassName": MIG}]
    status = allocated(result("gone", request="gpu/b"))
    (lost,) = holdings_of_claim(
        claim({"name": "gpu", "firstAvailable": alternatives}, status=status), example(), SETTINGS
    )
    assert lost.kinds == SLICES


def test_gone_device_of_an_unknown_request_could_be_anything(claim, request_for, example):
    status = allocated(result("gone", request="other"))
    (lost,) = holdings_of_claim(claim(request_for(), status=status), example(), SETTINGS)
    assert (lost.count, lost.is_open) == (1, True)
    assert DeviceKind("") in lost.unseen


def test_devices_held_with_admin_access_count_as_settings_say(claim, request_for, example):
    wanted = claim(request_for(adminAccess=True), status=allocated(result(adminAccess=True)))
    assert [demand.count for demand in holdings_of_claim(wanted, example(), SETTINGS)] == [1]
    assert holdings_of_claim(wanted, example(), FREE) == ()


def shared(view, shares, but=""):
    """The view with its GPUs shared by the driver, but for nodes whose name begins so."""
    slices = deepcopy([*view.list("ResourceSlice")])
    for each in (each for each in slices if not but or not each["spec"]["nodeName"].startswith(but)):
        each["spec"]["devices"] = [shared_device(device, shares) for device in each["spec"]["devices"]]
    return ManifestsView([*view.list("DeviceClass"), *slices])


def test_share_of_a_device_counts_as_its_part(claim, request_for, example):
    view = shared(example(), "4")
    half = request_for(capacity={"requests": {"shares": "2"}})
    status = allocated(result(shareID="1", consumedCapacity={"shares": "3", "memory": "0"}))
    assert {kind.gpus for kind in only(claim(half), view).kinds} == {Fraction(1, 2)}
    ((held,),) = (demand.kinds for demand in holdings_of_claim(claim(half, status=status), view, SETTINGS))
    assert held == replace(A100, gpus=Fraction(3, 4), memory=60 * GIB)


@pytest.mark.parametrize("strategy", ["TimeSlicing", "MPS"])
def test_claim_that_divides_a_gpu_between_its_pods_counts_once_and_whole(claim, request_for, example, strategy):
    wanted = claim(request_for(), status=allocated(result()))
    sharing = {"kind": "GpuConfig", "sharing": {"strategy": strategy}}
    wanted["spec"]["devices"]["config"] = [{"opaque": {"driver": "gpu.nvidia.com", "parameters": sharing}}]
    (held,) = holdings_of_claim(wanted, example(), SETTINGS)
    assert held == DeviceDemand(1, frozenset({A100}), priority_class=None)


def test_unpublished_gpu_counts_as_the_part_that_the_request_takes_of_the_others(claim, request_for, example):
    """An autoscaler may add any product, and the driver shares it as it shares the others."""
    half = claim(request_for(capacity={"requests": {"shares": "2"}}))
    assert only(half, shared(example(), "4")).unseen == {DeviceKind("", gpus=Fraction(1, 2))}
    eighth = replace(SETTINGS, unlimited_share="1/8")
    view = shared(example(), "unlimited")
    assert only(claim(request_for()), view, eighth).unseen == {DeviceKind("", gpus=Fraction(1, 8))}
    assert only(claim(request_for()), view).unseen == {DeviceKind("", shared_without_limit=True)}


def test_unpublished_gpu_counts_whole_where_some_gpus_are_not_shared(claim, request_for, example):
    mixed = shared(example(), "4", but="gpu-h100")
    assert only(claim(request_for()), mixed).unseen == {DeviceKind("")}


@pytest.mark.parametrize("text", ["device.allowMultipleAllocations", "device.allowMultipleAllocations == true"])
def test_memory_of_an_unpublished_gpu_that_must_be_shared_is_what_the_request_names(claim, request_for, example, text):
    wanted = request_for("gpu.nvidia.com", text, capacity={"requests": {"memory": "20Gi"}})
    mixed = shared(example(), "memory", but="gpu-h100")
    assert only(claim(wanted), mixed).unseen == {DeviceKind("", gpus=Fraction(20, 80), memory=20 * GIB)}


def test_memory_of_an_unpublished_gpu_is_unknown_if_it_may_be_held_alone(claim, request_for, example):
    wanted = request_for(
        "gpu.nvidia.com", "!device.allowMultipleAllocations", capacity={"requests": {"memory": "20Gi"}}
    )
    assert only(claim(wanted), shared(example(), "memory", but="gpu-h100")).unseen == {DeviceKind("")}


def test_unpublished_mig_device_counts_whole_because_one_claim_takes_all_multiprocessors(claim, request_for, example):
    view = shared(example(), "4")
    assert only(claim(request_for(MIG)), view).unseen == only(claim(request_for(MIG)), shared(example(), "")).unseen


def test_claim_for_shares_counts_only_devices_that_have_shares(claim, request_for, example):
    """The allocator gives it no other device, so a whole GPU beside them does not count."""
    wanted = claim(request_for(capacity={"requests": {"shares": "1"}}))
    demand = only(wanted, shared(example(), "4", but="gpu-h100"))
    assert {kind.product for kind in demand.kinds} == {A100.product}
    assert {kind.gpus for kind in demand.kinds | demand.unseen} == {Fraction(1, 4)}


POOLS = {"gpu-a100-01": A100, "gpu-h100-01": H100}
texts = st.lists(
    st.sampled_from(
        [
            f'{PRODUCT} == "NVIDIA H100 80GB HBM3"',
            f'{PRODUCT} != "NVIDIA H100 80GB HBM3"',
            f'{PRODUCT}.contains("A100")',
            f'{MEMORY}.compareTo(quantity("80Gi")) >= 0',
            f'{PRODUCT} in ["NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB"] || {MEMORY}.isLessThan(quantity("1Gi"))',
        ]
    ),
    max_size=2,
)


@given(texts, st.sampled_from(["gpu.nvidia.com", MIG]))
def test_claim_never_gets_more_than_the_most_it_was_charged(claim, request_for, example, selectors, name):
    """Whatever device the selectors leave it, and whether or not slices showed it when it was made."""
    view = example()
    wanted = claim(request_for(name, *selectors))
    without = ManifestsView([*view.list("DeviceClass")])
    demand, blind = only(wanted, view), only(wanted, without)
    for kind in demand.kinds:
        possible = blind.kinds | blind.unseen if blind.is_open else blind.kinds
        assert any(
            each.product in ("", kind.product)
            and each.gpus >= kind.gpus
            and (each.memory is None or each.memory >= (kind.memory or 0))
            for each in possible
        )


def test_claim_of_many_selectors_is_charged_the_most_where_they_are_too_much_work(claim, request_for, example):
    texts = [f'{PRODUCT} == "NVIDIA H100 80GB HBM3" && {PRODUCT} != "{number:04000}"' for number in range(4)]
    wanted = claim(*(request_for("gpu.nvidia.com", text, name=f"gpu-{index}") for index, text in enumerate(texts)))
    demands, _ = demands_of_claim(wanted, example(), SETTINGS)
    assert [demand.is_open for demand in demands] == [False, False, True, True]


def test_product_of_which_only_slices_are_shown_could_be_whole(example, claim, request_for):
    both = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "both"},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.nvidia.com"'}}]},
    }
    view = example(both)
    slices = [each for each in view.list("ResourceSlice") if "mig" in each["metadata"]["name"]]
    demand = only(
        claim(request_for("both", f'{PRODUCT} == "{A100.product[:6]} {A100.product[7:]}"')),
        ManifestsView([both, *slices]),
    )
    assert (demand.kinds, demand.is_open) == ({A100, *SLICES}, False)


@pytest.mark.parametrize(
    ("selectors", "products", "profiles"),
    [
        ([], None, None),
        ([f'{PRODUCT} == "Tesla T4" && true'], {"Tesla-T4"}, None),
        ([f'{PRODUCT} in ["A", "B"]', f'{PRODUCT} in ["B", "C"]'], {"B"}, None),
        ([f'{PRODUCT} == "A" && {PRODUCT} == "B"'], set(), None),
        ([f'{PROFILE} == "1g.5gb" && {PROFILE} != ""'], None, {"1g.5gb"}),
        ([f'!({PRODUCT} == "A")'], None, None),
        ([f'{PRODUCT} == "A" ? true : false'], None, None),
        (['device.attributes["other.example.com"].productName == "A"'], None, None),
        ([f"{PRODUCT}.replace(' ', '-') == 'A-B'"], {"A-B"}, None),
        ([f'{PRODUCT}.replace("A", "-") == "B"'], None, None),
    ],
)
def test_necessary_conditions_are_conjuncts_that_name_texts(selectors, products, profiles):
    need = necessary_conditions(GPU_TYPES, selectors)
    assert (need.products, need.profiles) == (products, profiles)
