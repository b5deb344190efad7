"""Wishes in claims: their CEL, the meaning of nvidia.com/gpu, and refusals."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.conversion.convert import convert
from policies.conversion.record import ConversionRecord
from policies.devices.device_sharing import requested_parts
from policies.kubernetes.pods import Pod
from policies.kubernetes.resourceslices import devices_in
from policies.nvidia.wishes import Wish
from policies.rules.settings import DEFAULTS, Conversion, GPUAdmissionPolicy, Placement
from tests.findings import plain_text
from tests.published import shared_device
from webhook.cluster.manifests import ManifestsView

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"
PRODUCT = "nvidia.com/gpu.product"
A100 = "NVIDIA-A100-SXM4-40GB"

CLASSES = [
    {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": f"{kind}.nvidia.com"},
        "spec": {
            "selectors": [
                {
                    "cel": {
                        "expression": f"device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == '{kind}'"
                    }
                }
            ]
        },
    }
    for kind in ("gpu", "mig")
]


def resource_slice(*devices, node="gpu-01"):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }


def gpu(name="gpu-0", product="NVIDIA H100 80GB HBM3", memory="81559Mi", shares=0, kind="gpu"):
    device = {
        "name": name,
        "attributes": {"type": {"string": kind}, "productName": {"string": product}},
        "capacity": {"memory": {"value": memory}},
    }
    if shares:
        device |= {"allowMultipleAllocations": True}
        device["capacity"]["shares"] = {"value": str(shares)}
    return device


def node(name, product, **labels):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {PRODUCT: product, **labels}},
        "status": {"allocatable": {GPU: "8"}},
    }


def pod(resource=GPU, count=1, **spec):
    wanted = {"limits": {resource: str(count)}, "requests": {resource: str(count)}}
    return Pod.read({"spec": {"containers": [{"name": "train", "resources": wanted}], **spec}})


def converted(objects, wish, document=None, policy=DEFAULTS):
    view, document = ManifestsView([*CLASSES, *objects]), document or pod()
    return convert(document, "team-a", view, policy, Wish.of(wish), document)


def requested(conversion):
    """The one request of the claim."""
    (request,) = conversion.template.spec["spec"]["devices"]["requests"]
    return request["exactly"]


def record_of(conversion):
    return ConversionRecord.parse(conversion.edits.document["metadata"]["annotations"]["gpu-admission.io/converted"])


WHERE = "spec.containers[0].resources.limits[nvidia.com/gpu]: "
REMEDY = 'write gpu-admission.io/sharing: "any", or keep this pod on device-plugin nodes (label gpu-admission.io/dra: disabled)'


@pytest.mark.parametrize(
    ("devices", "wish", "shares"),
    [
        ([gpu(shares=4)], "shared", "1"),
        ([gpu(shares=4), gpu("gpu-1")], "shared", "1"),
        ([gpu(shares=4)], "exclusive", "4"),
        ([gpu()], "exclusive", None),
        ([gpu(shares=4)], "any", "4"),
    ],
    ids=["shared", "shared where some are", "exclusive of shared", "exclusive", "any"],
)
def test_sharing_is_reported_in_shares(devices, wish, shares):
    conversion = converted([resource_slice(*devices)], {"sharing": wish})
    expected = {"requests": {"shares": shares}} if shares else None
    assert requested(conversion).get("capacity") == expected


@pytest.mark.parametrize(
    ("device", "resource", "meant"), [(gpu(), GPU, "GPU"), (gpu(kind="mig"), MIG, "MIG device")], ids=["gpu", "mig"]
)
def test_wished_share_of_whole_devices_is_refused(device, resource, meant):
    (obstacle,) = converted([resource_slice(device)], {"sharing": "shared"}, pod(resource)).obstacles
    where = WHERE.replace(GPU, resource)
    assert (obstacle.rule.id, obstacle.severity, plain_text(obstacle)) == (
        "GA327",
        "deny",
        f"{where}the pod wishes a shared {meant}, and no ResourceSlice offers shares of {meant}s; {REMEDY}",
    )


def test_wished_share_of_gpus_shared_by_memory_is_left_unconverted_until_it_names_its_memory():
    by_memory = [resource_slice(gpu() | {"allowMultipleAllocations": True})]
    (obstacle,) = converted(by_memory, {"sharing": "shared"}).obstacles
    assert (obstacle.rule.id, obstacle.severity, plain_text(obstacle)) == (
        "GA327",
        "warn",
        (
            f"{WHERE}the pod wishes a shared GPU, and the DRA driver shares GPUs by memory; "
            'write gpu-admission.io/gpu-memory: "10Gi", or keep this pod on device-plugin nodes'
        ),
    )
    conversion = converted(by_memory, {"sharing": "shared", "gpu-memory": "10Gi"})
    assert requested(conversion)["capacity"] == {"requests": {"memory": "10Gi"}}


@pytest.mark.parametrize(
    ("objects", "resource"),
    [([resource_slice()], GPU), ([resource_slice(gpu(shares=4))], MIG)],
    ids=["no device", "other kind"],
)
def test_wished_share_is_requested_while_no_such_device_is_published(objects, resource):
    conversion = converted(objects, {"sharing": "shared"}, pod(resource))
    assert requested(conversion)["capacity"] == {"requests": {"shares": "1"}}


def test_wished_share_is_requested_while_devices_are_unknown():
    assert requested(converted([], {"sharing": "shared"}))["capacity"] == {"requests": {"shares": "1"}}


def test_share_by_name_without_a_device_is_left_to_the_device_plugin():
    conversion = converted([resource_slice(gpu())], {"sharing": "shared"}, pod("nvidia.com/gpu.shared"))
    assert [(finding.rule.id, finding.severity) for finding in conversion.obstacles] == [("GA306", "warn")]


def test_exclusive_gpu_is_converted_where_every_node_is_time_sliced():
    objects = [node("a", "NVIDIA-A10G-SHARED"), resource_slice(gpu())]
    assert [finding.rule.id for finding in converted(objects, {}).obstacles] == ["GA306"]
    assert converted(objects, {"sharing": "exclusive"}).obstacles == ()


def test_shared_gpu_is_told_how_to_get_a_whole_one_and_that_works():
    objects = [node("a", "NVIDIA-A10G-SHARED"), resource_slice(gpu())]
    (finding,) = converted(objects, {}).obstacles
    assert finding.remedy == (
        'write gpu-admission.io/sharing: "exclusive" to get a whole GPU by DRA, or choose one that is not shared, such as '
        'gpu-admission.io/product: "NVIDIA-H100-80GB-HBM3"; or keep this pod on device-plugin nodes'
    )
    for wish in ({"sharing": "exclusive"}, {"product": "NVIDIA-H100-80GB-HBM3"}):
        assert converted(objects, wish).edits is not None


def test_pod_of_shared_gpus_is_told_a_product_of_which_a_node_has_enough():
    small, large = [gpu(product="NVIDIA A100-SXM4-80GB")], [gpu("gpu-0"), gpu("gpu-1")]
    objects = [node("a", "NVIDIA-A10G-SHARED"), resource_slice(*small, node="b"), resource_slice(*large, node="c")]
    (one,), (two,), (three,) = (converted(objects, {}, pod(GPU, count)).obstacles for count in (1, 2, 3))
    assert 'product: "NVIDIA-A100-SXM4-80GB"' in one.remedy
    assert 'product: "NVIDIA-H100-80GB-HBM3"' in two.remedy
    assert "exclusive" not in three.remedy


@pytest.mark.parametrize(
    ("objects", "wish"),
    [
        ([node("a", "NVIDIA-A10G-SHARED"), resource_slice()], {}),
        ([node("a", "NVIDIA-A10G-SHARED"), resource_slice(gpu())], {"sharing": "shared"}),
    ],
    ids=["no whole GPU", "the pod wishes a share"],
)
def test_shared_gpu_is_not_told_to_be_whole_where_that_fails(objects, wish):
    (finding,) = converted(objects, wish).obstacles
    assert "exclusive" not in finding.remedy


WHOLE_AND_MIG = [
    node("a", f"{A100}-MIG-1g.5gb"),
    node("b", f"{A100}-MIG-3g.20gb"),
    node("c", A100),
    node("d", "Tesla-T4"),
]


@pytest.mark.parametrize(
    ("objects", "product", "expected"),
    [
        (WHOLE_AND_MIG, "A100*-MIG-1g.5gb", ("mig", None)),
        (WHOLE_AND_MIG, "*mig*", ("mig", None)),
        (WHOLE_AND_MIG, "!*MIG*", ("gpu", None)),
        (WHOLE_AND_MIG, "!A100*", ("gpu", None)),
        (WHOLE_AND_MIG, "T4,Tesla-T4", ("gpu", None)),
        (WHOLE_AND_MIG, "*40GB", ("gpu", None)),
        (WHOLE_AND_MIG, "*5gb", ("mig", "1g.5gb")),
        (WHOLE_AND_MIG, "*40GB-*,!*3g*", ("mig", "1g.5gb")),
        (WHOLE_AND_MIG, "A100*,!*40GB", ("gpu", None)),
        (WHOLE_AND_MIG, "H100*", ("gpu", None)),
        ([], "A100*-MIG-1g.5gb", ("mig", None)),
        ([], "A100*,A100*-MIG-1g.5gb", ("gpu", None)),
        ([], "!*MIG*", ("gpu", None)),
        ([node("c", A100)], "*MIG*", ("mig", None)),
        ([node("a", f"{A100}-MIG-1g.5gb")], "H100*", ("gpu", None)),
    ],
)
def test_wished_products_tell_what_a_gpu_is(objects, product, expected):
    asked = record_of(converted(objects, {"product": product}))
    assert (asked.gpu, str(asked.profile) if asked.profile else None) == expected


@pytest.mark.parametrize("product", ["A100*", "*"])
def test_wish_for_whole_gpus_and_mig_devices_does_not_choose(product):
    assert [finding.rule.id for finding in converted(WHOLE_AND_MIG, {"product": product}).obstacles] == ["GA309"]


def test_wished_mig_devices_that_all_nodes_share_are_shares():
    objects = [node("a", f"{A100}-MIG-1g.5gb-SHARED"), resource_slice()]
    assert [finding.rule.id for finding in converted(objects, {"product": "*MIG*"}).obstacles] == ["GA306"]


def test_node_selector_tells_what_a_gpu_is_before_the_wish():
    document = pod(nodeSelector={PRODUCT: A100})
    assert record_of(converted(WHOLE_AND_MIG, {"product": "*MIG*"}, document)).gpu == "gpu"


EXISTING = "the cluster has NVIDIA-H100-80GB-HBM3 on 1 node; request a device that exists, or wait for such a node"


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({"product": "H200*,B200*,!*NVL*"}, f"no device matches product H200* or B200*, not *NVL*; {EXISTING}"),
        ({"min-memory": "100Gi"}, f"no device matches memory at least 102400Mi; {EXISTING}"),
        (
            {"family": "hopper,ampere", "min-driver": "580.95"},
            f"no device matches family ampere or hopper, driver 580.95 or newer; {EXISTING}",
        ),
        ({"min-cuda": "13"}, f"no device matches CUDA 13.0 or newer; {EXISTING}"),
    ],
    ids=["product", "memory", "family and driver", "CUDA"],
)
def test_wish_that_no_device_meets_is_reported_in_words(wish, expected):
    (notice,) = converted([resource_slice(gpu())], wish).notices
    assert plain_text(notice) == WHERE + expected


@pytest.mark.parametrize(
    ("wish", "expected"),
    [
        ({"product": "H100*"}, "no device that matches product H100* is offered in shares"),
        ({"product": "L40S"}, None),
        ({}, None),
    ],
    ids=["of the unshared product", "of the shared product", "of any product"],
)
def test_wished_share_is_looked_for_among_the_wished_devices(wish, expected):
    shared = resource_slice(gpu(product="NVIDIA L40S", shares=4), node="gpu-02")
    notices = converted([resource_slice(gpu()), shared], {"sharing": "shared", **wish}).notices
    assert [notice.message.split(";")[0] for notice in notices] == ([expected] if expected else [])


@pytest.mark.parametrize(
    ("of_conversion", "of_placement", "wish", "expected"),
    [
        ("warn", "warn", {"family": "volta"}, "warn"),
        ("warn", "deny", {"family": "volta"}, "deny"),
        ("deny", "warn", {"family": "volta"}, "deny"),
        ("deny", "deny", {}, "deny"),
        ("warn", "deny", {}, "warn"),
        ("warn", "deny", {"sharing": "exclusive"}, "warn"),
    ],
)
def test_either_setting_refuses_what_nothing_satisfies(of_conversion, of_placement, wish, expected):
    policy = GPUAdmissionPolicy(
        conversion=Conversion(unsatisfiable=of_conversion), placement=Placement(unsatisfiable=of_placement)
    )
    document = pod(nodeSelector={"nvidia.com/gpu.family": "volta"})
    (notice,) = converted([resource_slice(gpu())], wish, document, policy).notices
    assert (notice.rule.id, notice.severity) == ("GA313", expected)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"family": "hopper,ampere"}, {"family": "ampere, hopper"}),
        ({"product": "H100*,A100*,!*NVL*"}, {"product": "A100*,NVIDIA-H100*,!*nvl*"}),
        ({"min-memory": "1Gi"}, {"min-memory": "1024Mi"}),
        ({"sharing": "exclusive"}, {}),
    ],
    ids=["families", "products", "memory", "sharing of devices that are not shared"],
)
def test_equal_wishes_share_a_template(first, second):
    assert converted([], first).template == converted([], second).template


def test_wish_narrows_what_node_labels_select():
    document = pod(nodeSelector={"nvidia.com/gpu.family": "hopper"})
    expressions = [
        each["cel"]["expression"] for each in requested(converted([], {"min-memory": "1Gi"}, document))["selectors"]
    ]
    alone = requested(converted([], {}, document))["selectors"]
    assert [each["cel"]["expression"] for each in alone] == expressions[:1]
    assert len(expressions) == 2


@pytest.mark.parametrize(("number", "is_warned"), [(2, False), (3, True)], ids=["all-of-a-node", "more"])
def test_devices_of_several_products_on_one_node_count_together(number, is_warned):
    wanted = {name: {GPU: str(number)} for name in ("limits", "requests")}
    document = Pod.read({"spec": {"containers": [{"name": "train", "resources": wanted}]}})
    devices = resource_slice(gpu(), gpu("gpu-1", "Tesla T4", "15360Mi"))
    found = converted([devices], {}, document).notices
    assert [finding.message.partition(",")[0] for finding in found] == ["the pod requests 3 in all"] * is_warned


@given(
    st.integers(2, 12),
    st.one_of(st.integers(1, 12).map(str), st.just("memory")),
    st.integers(1_000, 200_000),
    st.booleans(),
)
def test_claim_for_a_share_takes_no_more_than_the_share_was(replicas, shares, memory, is_dynamic):
    labels = {f"{GPU}.replicas": str(replicas), f"{GPU}.memory": str(memory), f"{GPU}.sharing-strategy": "time-slicing"}
    device = gpu(product="NVIDIA A10G", memory=f"{memory}Mi")
    device["capacity"] |= {"multiprocessors": {"value": "80"}} if is_dynamic else {}
    published = resource_slice(shared_device(device, shares))
    conversion = converted([node("a", "NVIDIA-A10G-SHARED", **labels), published], {})
    is_larger = shares != "memory" and int(shares) < replicas
    assert [each.rule.id for each in conversion.obstacles] == ["GA306"] * is_larger
    if not is_larger:
        (found,) = devices_in(published)
        parts = requested_parts(found, requested(conversion)["capacity"]["requests"])
        assert 0 < max(parts.values()) <= Fraction(1, replicas)
