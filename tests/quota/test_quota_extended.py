"""Extended resources: requests by name, and the devices on a node."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.pods import Pod
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.mig import MIGProfile
from policies.quota.demands.device_kinds import unseen_slice
from policies.quota.demands.pods import ExtendedResources, most_held
from policies.rules.charges import DeviceDemand, DeviceKind
from policies.rules.settings import DEFAULTS, Quotas, ReplicaWeight
from webhook.cluster.manifests import ManifestsView

MIB, GIB = 2**20, 2**30
GPU, PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"
A100, H100, T4 = "NVIDIA-A100-SXM4-40GB", "NVIDIA-H100-80GB-HBM3", "Tesla-T4"
IMPLICIT = "deviceclass.resource.kubernetes.io/"
SETTINGS = DEFAULTS.quota

WHOLE = DeviceKind(A100, memory=40960 * MIB)
SLICE = DeviceKind(A100, "1g.5gb", Fraction(1, 7), 4864 * MIB)
SHARE = DeviceKind(H100, gpus=Fraction(1, 4), memory=81559 * MIB // 4)


def extended(pod, view, settings=SETTINGS):
    return ExtendedResources(pod, "", view, settings)


def only(pod, view, settings=SETTINGS):
    (demand,) = extended(pod, view, settings).demands.values()
    return demand


def affinity(*terms):
    """Required affinity of terms, each of (key, operator, *values)."""
    listed = [
        {"matchExpressions": [{"key": key, "operator": operator, "values": values} for key, operator, *values in term]}
        for term in terms
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": listed}}
    return {"nodeAffinity": required}


def test_whole_gpu_could_be_any_seen_or_unseen_product(cluster, pod):
    demand = only(pod({GPU: 2}), cluster("f1", "f2", "f3", "f4"))
    assert demand == DeviceDemand(2, frozenset({WHOLE, SLICE, SHARE}), is_open=True, unseen=frozenset({DeviceKind("")}))


def test_mig_device_is_open_for_products_and_not_for_its_profile(cluster, pod):
    demand = only(pod({"nvidia.com/mig-1g.5gb": 3}), cluster("f1", "f2"))
    assert demand == DeviceDemand(
        3, frozenset({SLICE}), is_open=True, unseen=frozenset({unseen_slice(MIGProfile(1, 5))})
    )


@pytest.mark.parametrize(
    ("spec", "kinds"),
    [
        ({"nodeSelector": {PRODUCT: A100}}, {WHOLE}),
        ({"nodeSelector": {PRODUCT: f"{A100}-MIG-1g.5gb"}}, {SLICE}),
        ({"nodeSelector": {PRODUCT: f"{H100}-SHARED"}}, {SHARE}),
        ({"affinity": affinity([(PRODUCT, "In", A100, f"{H100}-SHARED")])}, {WHOLE, SHARE}),
        ({"affinity": affinity([(PRODUCT, "In", A100)], [(PRODUCT, "In", f"{H100}-SHARED")])}, {WHOLE, SHARE}),
        (
            {"affinity": affinity([(PRODUCT, "In", A100, f"{H100}-SHARED"), (PRODUCT, "NotIn", A100)])},
            {SHARE},
        ),
        (
            {"nodeSelector": {PRODUCT: A100}, "affinity": affinity([("topology.kubernetes.io/zone", "In", "a")])},
            {WHOLE},
        ),
    ],
    ids=["selector", "single strategy", "shared", "two", "two terms", "excluded", "other labels"],
)
def test_product_that_is_pinned_leaves_its_kinds_only(cluster, pod, spec, kinds):
    demand = only(pod({GPU: 1}, **spec), cluster("f1", "f3", "f4"))
    assert (demand.kinds, demand.is_open) == (kinds, False)


@pytest.mark.parametrize(
    ("spec", "kinds"),
    [
        ({"affinity": affinity([(PRODUCT, "NotIn", A100)])}, {SLICE, SHARE}),
        ({"affinity": affinity([("nvidia.com/gpu.memory", "Gt", "50000")])}, {SHARE}),
        ({"affinity": affinity([("nvidia.com/gpu.sharing-strategy", "In", "none")])}, {WHOLE, SLICE}),
        ({"affinity": affinity([(PRODUCT, "In", A100)], [("nvidia.com/gpu.memory", "Gt", "50000")])}, {WHOLE, SHARE}),
        ({"nodeSelector": {"kubernetes.io/hostname": "h100-time-sliced-1"}}, {WHOLE, SLICE, SHARE}),
    ],
    ids=["excluded product", "memory", "sharing", "pinned in one term only", "other label"],
)
def test_other_requirements_narrow_kinds_and_leave_a_demand_open(cluster, pod, spec, kinds):
    demand = only(pod({GPU: 1}, **spec), cluster("f1", "f3", "f4"))
    assert (demand.kinds, demand.is_open) == (kinds, True)


@pytest.mark.parametrize(
    "spec",
    [
        {"affinity": affinity([])},
        {"affinity": affinity([(PRODUCT, "In")])},
        {"nodeSelector": {PRODUCT: A100}, "affinity": affinity([(PRODUCT, "NotIn", A100)])},
    ],
    ids=["empty term", "malformed", "contradiction"],
)
def test_requirements_that_no_node_can_meet_make_nothing_free(cluster, pod, spec):
    assert only(pod({GPU: 1}, **spec), cluster("f1", "f4")).is_open


@pytest.mark.parametrize(
    ("resource", "label", "kind"),
    [
        (GPU, "NVIDIA-GB200", DeviceKind("NVIDIA-GB200", memory=189 * GIB)),
        (GPU, T4, DeviceKind(T4, memory=16 * GIB)),
        (GPU, "NVIDIA-X900", DeviceKind("NVIDIA-X900")),
        (GPU, "NVIDIA-A30-MIG-1g.6gb", DeviceKind("NVIDIA-A30", "1g.6gb", Fraction(1, 4), 6 * GIB + GIB // 2)),
        (GPU, f"{T4}-SHARED", DeviceKind(T4, memory=16 * GIB)),
        ("nvidia.com/mig-1g.6gb", "NVIDIA-A30", DeviceKind("NVIDIA-A30", "1g.6gb", Fraction(1, 4), 13 * GIB // 2)),
    ],
)
def test_pinned_product_that_no_node_shows_is_charged_by_its_name(cluster, pod, resource, label, kind):
    demand = only(pod({resource: 1}, nodeSelector={PRODUCT: label}), cluster("f1", "f2", "f4"))
    assert demand == DeviceDemand(1, frozenset({kind}))


def test_product_that_is_shown_in_shares_only_is_charged_whole_where_the_pod_names_it_whole(cluster, pod):
    terms = affinity([(PRODUCT, "In", H100, f"{H100}-SHARED")])
    demand = only(pod({GPU: 1}, affinity=terms), cluster("f4"))
    assert demand == DeviceDemand(1, frozenset({SHARE, DeviceKind(H100, memory=80 * GIB)}))


def test_pod_that_requires_more_than_is_judged_in_time_is_charged_the_most(cluster, pod):
    terms = affinity(*([(PRODUCT, "In", A100)] for _ in range(600)))
    assert only(pod({GPU: 1}, affinity=terms), cluster("f1", "f4")).is_open


def test_pod_that_names_very_many_products_names_none(cluster, pod):
    terms = affinity([(PRODUCT, "In", A100, *(f"GPU-{number}" for number in range(64)))])
    demand = only(pod({GPU: 1}, affinity=terms), cluster("f1", "f4"))
    assert (demand.kinds, demand.is_open) == ({WHOLE}, True)


def test_label_of_a_mig_resource_pins_its_product(cluster, pod):
    selector = {"nvidia.com/mig-1g.5gb.product": f"{A100}-MIG-1g.5gb"}
    assert only(pod({"nvidia.com/mig-1g.5gb": 1}, nodeSelector=selector), cluster("f2")) == DeviceDemand(
        1, frozenset({SLICE})
    )


def test_weight_of_the_administrator_counts(cluster, pod):
    settings = Quotas(weights=(ReplicaWeight(("H100*",), "time-slicing", "1/2"),))
    (kind,) = only(pod({GPU: 1}), cluster("f4"), settings).kinds
    assert kind.gpus == Fraction(1, 2)


def test_renamed_replicas_are_requested_by_their_own_name(node, cluster, pod):
    shared = node("f4", labels={PRODUCT: H100}, offers={GPU: "0", "nvidia.com/gpu.shared": "32"})
    assert only(pod({"nvidia.com/gpu.shared": 1}), cluster("f1", shared)).kinds == {SHARE}
    assert only(pod({GPU: 1}), cluster("f1", shared)).kinds == {WHOLE}


def test_other_resources_cost_nothing(example, pod):
    requested = extended(pod({"cpu": 4, "amd.com/gpu": 1, "nvidia.com/hostdev": 1}), example())
    assert not requested.demands
    assert not [*requested.problems()]


def test_nothing_requested_is_nothing_charged(cluster, pod):
    assert not extended(pod({GPU: 0}), cluster("f1")).demands


def test_resource_that_a_class_stands_for_can_be_met_by_its_devices(example, pod):
    products = {kind.product for kind in only(pod({GPU: 1}), example()).kinds}
    assert products == {A100, "NVIDIA-A100-SXM4-80GB", H100, T4}


def test_implicit_name_of_a_class_has_its_devices(example, pod):
    demand = only(pod({f"{IMPLICIT}mig.nvidia.com": 1}), example())
    assert {kind.profile for kind in demand.kinds} == {"1g.10gb", "2g.20gb", "3g.40gb"}
    assert demand.is_open
    assert all(kind.profile for kind in demand.unseen)


def test_devices_of_a_class_are_narrowed_by_the_nodes_they_are_on(example, pod):
    demand = only(pod({f"{IMPLICIT}gpu.nvidia.com": 1}, nodeSelector={PRODUCT: H100}), example())
    assert (demand.kinds, demand.is_open) == ({DeviceKind(H100, memory=81559 * MIB)}, False)


def device_class(name, expression, **spec):
    selectors = [{"cel": {"expression": expression}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": selectors, **spec},
    }


def test_class_of_one_product_closes_what_is_requested(example, pod):
    text = (
        'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "gpu" '
        '&& device.attributes["gpu.nvidia.com"].productName == "NVIDIA H100 80GB HBM3"'
    )
    view = example(device_class("h100", text, extendedResourceName="example.com/h100"))
    for resource in ("example.com/h100", f"{IMPLICIT}h100"):
        demand = only(pod({resource: 1}), view)
        assert ({kind.product for kind in demand.kinds}, demand.is_open) == ({H100}, False)


def test_class_of_another_driver_costs_nothing(example, pod):
    view = example(device_class("nic", 'device.driver == "nic.example.com"', extendedResourceName="example.com/nic"))
    assert not extended(pod({"example.com/nic": 1, f"{IMPLICIT}nic": 1}), view).demands


def test_class_that_does_not_exist_is_charged_as_whole_gpus(example, pod):
    requested = extended(pod({f"{IMPLICIT}h100": 2}), example())
    (demand,) = requested.demands.values()
    assert [each.path[-1] for each in requested.problems()] == [f"{IMPLICIT}h100"]
    assert (demand.count, demand.is_open, demand.unseen) == (2, True, {DeviceKind("")})


class Blind(ManifestsView):
    """A view of nothing."""

    def list(self, kind, namespace=""):
        return UNKNOWN

    def derive_each(self, kind, function):
        return UNKNOWN


@pytest.mark.parametrize("resource", [GPU, f"{IMPLICIT}gpu.nvidia.com"])
def test_where_nothing_can_be_seen_whole_gpus_are_charged(pod, resource):
    requested = extended(pod({resource: 2}), Blind([]))
    assert [*requested.demands.values()] == [DeviceDemand(2, frozenset(), is_open=True)]
    assert not [*requested.problems()]


@pytest.mark.parametrize(
    ("fixture", "name", "kind"),
    [("f1", "a100-1", WHOLE), ("f3", "a100-single-1", SLICE), ("f4", "h100-time-sliced-1", SHARE)],
)
def test_bound_pod_has_what_its_node_hands_out(node, cluster, pod, fixture, name, kind):
    view = cluster(node(fixture, name), "f5")
    assert extended(pod({GPU: 2}), view).holdings(name) == {GPU: DeviceDemand(2, frozenset({kind}))}


def test_pod_bound_to_a_node_that_is_gone_is_charged_as_if_it_had_none(cluster, pod):
    requested = extended(pod({GPU: 2}), cluster("f1"))
    assert requested.holdings("gone") == requested.demands


def test_pod_bound_to_a_node_of_the_dra_driver_has_its_devices(example, pod):
    (demand,) = extended(pod({GPU: 1}), example()).holdings("gpu-h100-01").values()
    assert ({kind.product for kind in demand.kinds}, demand.is_open) == ({H100}, False)


PRODUCTS = (A100, f"{A100}-MIG-1g.5gb", f"{H100}-SHARED", f"{T4}-SHARED", T4)
FIXTURES = {"f1": A100, "f2": A100, "f3": f"{A100}-MIG-1g.5gb", "f4": f"{H100}-SHARED", "f5": f"{T4}-SHARED"}
requirements = st.lists(
    st.lists(
        st.one_of(
            st.tuples(st.just(PRODUCT), st.sampled_from(["In", "NotIn"]), st.sampled_from(PRODUCTS)),
            st.tuples(st.just("nvidia.com/gpu.memory"), st.sampled_from(["Gt", "Lt"]), st.just("20000")),
            st.tuples(st.just("nvidia.com/gpu.sharing-strategy"), st.just("In"), st.sampled_from(["none", "mps"])),
        ),
        min_size=1,
        max_size=3,
    ),
    max_size=2,
)


def covers(demand, kind):
    """Whether a demand of one device is charged at least as a kind of device."""
    possible = demand.kinds | demand.unseen if demand.is_open else demand.kinds
    return any(
        each.product in ("", kind.product)
        and each.gpus >= kind.gpus
        and (each.memory is None or (kind.memory is not None and each.memory >= kind.memory))
        for each in possible
    )


@given(st.sets(st.sampled_from(sorted(FIXTURES)), min_size=1), requirements, st.sampled_from(sorted(FIXTURES)))
def test_pod_never_gets_more_than_the_most_it_was_charged(node, cluster, pod, shown, terms, target):
    """On whatever node it runs that its requirements allow, and whether or not the cluster showed that node."""
    spec = {"affinity": affinity(*terms)} if terms else {}
    gpu_pod = pod({GPU: 1}, **spec)
    requested = extended(gpu_pod, cluster(*sorted(shown)))
    after = extended(gpu_pod, cluster(*sorted(shown | {target})))
    (demand,) = requested.demands.values()
    labels = node(target)["metadata"]["labels"]
    if after._required.allow(labels) and GPU in dict(after._nodes.by_name[node(target)["metadata"]["name"]].offers):
        (got,) = after.holdings(node(target)["metadata"]["name"]).values()
        assert all(covers(demand, kind) for kind in got.kinds)
        if target in shown:
            assert got.kinds <= demand.kinds


amounts = st.integers(0, 9)


@given(
    st.lists(st.tuples(amounts, st.sampled_from([None, "Always"])), max_size=4),
    st.lists(amounts, min_size=1, max_size=4),
    st.integers(0, 9),
)
def test_count_is_what_the_pod_holds_at_its_fullest(first, then, whole):
    def container(name, amount):
        return {"name": name, "image": "a", "resources": {"limits": {GPU: str(amount)}, "requests": {GPU: str(amount)}}}

    inits = [
        container(f"init-{index}", amount) | ({"restartPolicy": policy} if policy else {})
        for index, (amount, policy) in enumerate(first)
    ]
    spec = {
        "initContainers": inits,
        "containers": [container(f"app-{index}", amount) for index, amount in enumerate(then)],
        "resources": {"requests": {GPU: str(whole)}},
        "overhead": {GPU: "1"},
    }
    count = most_held(Pod.read({"metadata": {"name": "a"}, "spec": spec})).get(GPU, 0)
    sidecars, held = 0, []
    for amount, policy in first:
        held.append(sidecars + amount)
        sidecars += amount if policy else 0
    assert count == max([*held, sidecars + sum(then)])
    assert count >= max([*then, *(amount for amount, _ in first)])
