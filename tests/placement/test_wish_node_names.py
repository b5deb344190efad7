"""Without labels for GPUs, wishes become names of nodes with matching devices."""

from pathlib import Path

import pytest

from policies.nvidia.wishes import Wish
from policies.placement.wanted_nodes import MOST_NAMES, named_nodes, requested_gpus, wanted_nodes
from testbed import libyaml

BY_CLASS = "deviceclass.resource.kubernetes.io/gpu.nvidia.com"
BY_MIG_CLASS = "deviceclass.resource.kubernetes.io/mig.nvidia.com"
GPU = "nvidia.com/gpu"


@pytest.fixture
def gpucluster():
    """The objects of a GPUCluster, after a change of them, which gets them by kind and name."""
    documents = list(libyaml.load_all((Path(__file__).parent / "nodes" / "gpucluster.yaml").read_text()))

    def gpucluster(change=None):
        if change:
            change({(part["kind"], part["metadata"]["name"]): part for part in documents})
        return documents

    return gpucluster


@pytest.fixture
def conditions(pod, cluster):
    """The alternatives by name for a wish, each as the texts of its requirements."""

    def conditions(words, parts, resource=BY_CLASS):
        view = cluster(*parts)
        (gpu,) = requested_gpus(pod({resource: 1}), view)
        return [[str(item) for item in branch] for branch in named_nodes(Wish.of(words), gpu, view)]

    return conditions


def devices(parts, name):
    return parts["ResourceSlice", f"00000-gpu.nvidia.com-{name}"]["spec"]["devices"]


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ({"product": "H100*"}, ["kubernetes.io/hostname In [h100-dra-1]"]),
        ({"product": "A100*,H100*"}, ["kubernetes.io/hostname In [a100-dra-1, h100-dra-1]"]),
        ({"min-memory": "80000Mi"}, ["kubernetes.io/hostname In [h100-dra-1]"]),
        ({"family": "ampere"}, ["kubernetes.io/hostname In [a100-dra-1]"]),
        ({"sharing": "exclusive"}, ["nvidia.com/gpu.product DoesNotExist"]),
    ],
    ids=lambda value: ",".join(value) if isinstance(value, dict) else "",
)
def test_nodes_whose_devices_are_as_wished_are_named(conditions, gpucluster, words, names):
    assert conditions(words, gpucluster()) == [names]


@pytest.mark.parametrize("words", [{"product": "H200*"}, {"sharing": "shared"}, {"min-memory": "100Gi"}], ids=str)
def test_no_node_is_named_where_no_device_is_as_wished(conditions, gpucluster, words):
    assert conditions(words, gpucluster()) == []


def test_node_with_another_device_beside_is_not_named(conditions, gpucluster):
    def put_a_t4_beside(parts):
        devices(parts, "h100-dra-1")[3]["attributes"]["productName"] = {"string": "Tesla T4"}

    assert conditions({"product": "H100*"}, gpucluster(put_a_t4_beside)) == []


def test_devices_that_claims_can_share_are_not_exclusive(conditions, gpucluster):
    def share(parts):
        for device in devices(parts, "h100-dra-1"):
            device["allowMultipleAllocations"] = True

    parts = gpucluster(share)
    assert conditions({"sharing": "exclusive"}, parts) == [["kubernetes.io/hostname In [a100-dra-1]"]]
    assert conditions({"sharing": "shared"}, parts) == [["kubernetes.io/hostname In [h100-dra-1]"]]


def test_node_that_has_labels_is_not_named(conditions, gpucluster):
    def label(parts):
        parts["Node", "h100-dra-1"]["metadata"]["labels"]["nvidia.com/gpu.product"] = "NVIDIA-H100-80GB-HBM3"

    assert conditions({"product": "H100*"}, gpucluster(label)) == []


def test_device_plugin_resource_gets_devices_only_where_a_class_stands_for_it(conditions, gpucluster):
    def stand_for_gpus(parts):
        parts["DeviceClass", "gpu.nvidia.com"]["spec"]["extendedResourceName"] = GPU

    assert conditions({"product": "H100*"}, gpucluster(), GPU) == []
    assert conditions({"product": "H100*"}, gpucluster(stand_for_gpus), GPU) == [
        ["kubernetes.io/hostname In [h100-dra-1]"]
    ]


def test_resource_of_any_name_gets_devices_of_its_class(conditions, gpucluster):
    def stand_for_gpus(parts):
        parts["DeviceClass", "gpu.nvidia.com"]["spec"]["extendedResourceName"] = "example.com/gpu"

    assert conditions({"product": "A100*"}, gpucluster(stand_for_gpus), "example.com/gpu") == [
        ["kubernetes.io/hostname In [a100-dra-1]"]
    ]


def test_mig_devices_are_reported_from_whole_gpus(conditions, gpucluster):
    def divide(parts):
        for device in devices(parts, "a100-dra-1"):
            device["attributes"] |= {"type": {"string": "mig"}, "profile": {"string": "1g.5gb"}}

    parts = gpucluster(divide)
    assert conditions({"product": "A100*"}, parts) == []
    assert conditions({"product": "A100*"}, parts, BY_MIG_CLASS) == [["kubernetes.io/hostname In [a100-dra-1]"]]


def label_and_divide(parts):
    """The A100 are MIG devices of the DRA driver, on a node that GFD labels."""
    parts["Node", "a100-dra-1"]["metadata"]["labels"] |= {
        "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    }
    for device in devices(parts, "a100-dra-1"):
        device["attributes"] |= {"type": {"string": "mig"}, "profile": {"string": "1g.5gb"}}


def test_labelled_node_is_named_for_devices_without_labels(conditions, gpucluster):
    parts = gpucluster(label_and_divide)
    assert conditions({"product": "A100*"}, parts, BY_MIG_CLASS) == [["kubernetes.io/hostname In [a100-dra-1]"]]
    assert conditions({"product": "H100*"}, parts, BY_MIG_CLASS) == []
    assert conditions({"product": "A100*"}, parts) == []


def test_devices_without_labels_are_exclusive(conditions, gpucluster):
    assert conditions({"sharing": "exclusive"}, gpucluster(label_and_divide), BY_MIG_CLASS) == [[]]
    assert conditions({"sharing": "shared"}, gpucluster(label_and_divide), BY_MIG_CLASS) == []


def test_devices_without_labels_are_named_by_their_sharing(conditions, gpucluster):
    def share_h100(parts):
        label_and_divide(parts)
        for device in devices(parts, "h100-dra-1"):
            device["attributes"] |= {"type": {"string": "mig"}, "profile": {"string": "1g.10gb"}}
            device["allowMultipleAllocations"] = True

    parts = gpucluster(share_h100)
    exclusive, shared = ({"sharing": how} for how in ("exclusive", "shared"))
    assert conditions(exclusive, parts, BY_MIG_CLASS) == [["kubernetes.io/hostname In [a100-dra-1]"]]
    assert conditions(shared, parts, BY_MIG_CLASS) == [["kubernetes.io/hostname In [h100-dra-1]"]]


def test_mig_resource_gets_devices_of_its_profile(conditions, gpucluster):
    def divide(parts):
        parts["DeviceClass", "mig.nvidia.com"]["spec"]["extendedResourceName"] = "nvidia.com/mig-1g.5gb"
        for name, profile in (("a100-dra-1", "1g.5gb"), ("h100-dra-1", "1g.10gb")):
            for device in devices(parts, name):
                device["attributes"] |= {"type": {"string": "mig"}, "profile": {"string": profile}}

    assert conditions({"product": "*100*"}, gpucluster(divide), "nvidia.com/mig-1g.5gb") == [
        ["kubernetes.io/hostname In [a100-dra-1]"]
    ]


def test_only_so_many_nodes_are_named(conditions, gpucluster):
    node, _, first, *_ = parts = gpucluster()
    for number in range(MOST_NAMES + 5):
        name = f"h100-{number:04}"
        parts.append({**node, "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}})
        spec = {**first["spec"], "nodeName": name, "pool": {**first["spec"]["pool"], "name": name}}
        parts.append({**first, "metadata": {"name": name}, "spec": spec})
    ((names,),) = conditions({"product": "H100*"}, parts)
    assert (
        names == "kubernetes.io/hostname In [h100-0000, h100-0001, h100-0002, h100-0003, h100-0004, "
        f"and {MOST_NAMES - 5} more]"
    )


def test_nothing_is_named_while_slices_or_nodes_are_unknown(conditions, gpucluster):
    nodes, rest = gpucluster()[:2], gpucluster()[2:]
    assert conditions({"product": "H100*"}, nodes) == []
    assert conditions({"product": "H100*"}, rest) == []


def test_resources_are_those_that_bring_a_gpu_and_are_requested(pod, cluster):
    asking = pod({"nvidia.com/gpu": 0, "nvidia.com/mig-1g.5gb": 1, "cpu": 1, BY_CLASS: "0", "example.com/gpu": 1})
    assert [gpu.name for gpu in requested_gpus(asking, cluster())] == ["nvidia.com/mig-1g.5gb"]


@pytest.fixture
def wanted(pod, cluster):
    """What a wish requires of the node of a pod that asks for these resources."""

    def wanted(words, limits, *parts, **spec):
        view, asking = cluster(*parts), pod(limits, **spec)
        return wanted_nodes(asking, requested_gpus(asking, view), view, Wish.of(words))

    return wanted


def texts(wanted):
    return [[str(item) for item in branch] for branch in wanted.alternatives]


def test_names_are_an_alternative_to_labels(wanted):
    found = wanted({"product": "H100-80GB-HBM3"}, {BY_CLASS: 1}, "f1", "gpucluster")
    assert texts(found) == [
        ["nvidia.com/gpu.product In [NVIDIA-H100-80GB-HBM3]"],
        ["kubernetes.io/hostname In [h100-dra-1]"],
    ]
    assert found.names == ("h100-dra-1",)


def test_all_resources_of_a_pod_must_be_as_wished(wanted):
    limits = {GPU: 1, "nvidia.com/mig-1g.5gb": 1}
    assert texts(wanted({"product": "A100-SXM4-40GB"}, limits, "f2")) == [
        [
            "nvidia.com/gpu.product In [NVIDIA-A100-SXM4-40GB]",
            "nvidia.com/mig-1g.5gb.product In [NVIDIA-A100-SXM4-40GB-MIG-1g.5gb]",
        ]
    ]


@pytest.mark.parametrize("words", [{}, {"sharing": "any"}], ids=["nothing", "any sharing"])
def test_wish_that_everything_meets_requires_nothing(wanted, words):
    assert texts(wanted(words, {BY_MIG_CLASS: 1}, "gpucluster")) == [[]]


def test_resource_without_facts_is_left_open(wanted):
    found = wanted({"product": "H100*"}, {BY_MIG_CLASS: 1}, "gpucluster")
    assert texts(found) == [[]]
    assert [gpu.name for gpu in found.untold] == [BY_MIG_CLASS]


def test_nodes_with_labels_tell_of_devices_that_have_no_labels(wanted, gpucluster):
    found = wanted({"product": "A100*"}, {BY_MIG_CLASS: 1}, *gpucluster(label_and_divide))
    assert texts(found) == [["kubernetes.io/hostname In [a100-dra-1]"]]
    assert found.untold == ()


def test_resource_whose_devices_are_all_others_is_never_as_wished(wanted, gpucluster):
    def divide(parts):
        for device in devices(parts, "a100-dra-1"):
            device["attributes"] |= {"type": {"string": "mig"}, "profile": {"string": "1g.5gb"}}

    found = wanted({"product": "H200*"}, {BY_MIG_CLASS: 1}, *gpucluster(divide))
    assert texts(found) == []
    assert found.untold == ()


def test_product_that_the_pod_selects_itself_is_one_that_may_come(wanted):
    selector = {"nvidia.com/gpu.product": "NVIDIA-H100-New"}
    found = wanted({"product": "H100-N*"}, {GPU: 1}, nodeSelector=selector)
    assert texts(found) == [["nvidia.com/gpu.product In [NVIDIA-H100-NVL, NVIDIA-H100-New]"]]
