"""Constraints that devices of the cluster can meet, or cannot."""

import pytest

PATH = "spec.devices.constraints[0]."
ROOT = "resource.kubernetes.io/pcieRoot"
INSTEAD = "constrain another attribute, or request fewer devices"


def match(attribute, *requests):
    return {"matchAttribute": attribute, **({"requests": list(requests)} if requests else {})}


@pytest.fixture
def roots(device_class, gpu, on_node):
    """`roots(*roots)`: one node whose GPUs are below these PCIe roots."""

    def make(*names):
        devices = [
            gpu(f"gpu-{number}", resource=None, **{ROOT.replace("/", "__"): root}) for number, root in enumerate(names)
        ]
        return [device_class(), on_node("node-1", *devices)]

    return make


@pytest.mark.parametrize(("count", "fine"), [(2, True), (3, False)])
def test_no_more_than_agree_can_be_had(said, asking, roots, count, fine):
    claim = asking(count=count, constraints=[match(ROOT)])
    expected = f'matchAttribute: wants 3 devices for "gpu" that agree in {ROOT}, and no node has more than 2 that do; {INSTEAD}'
    assert said("GA226", claim, *roots("a", "a", "b", "b"), path=PATH) == ([] if fine else [expected])


def test_devices_of_two_nodes_do_not_agree(said, asking, device_class, gpu, on_node):
    devices = {f"node-{number}": gpu(resource=None, **{ROOT.replace("/", "__"): "a"}) for number in range(2)}
    claim = asking(
        constraints=[match(ROOT)], others=[{"name": "second", "exactly": {"deviceClassName": "gpu.nvidia.com"}}]
    )
    cluster = [device_class(), *(on_node(node, device) for node, device in devices.items())]
    assert said("GA226", claim, *cluster, path=PATH) == [
        f'matchAttribute: wants 2 devices for "gpu" and "second" that agree in {ROOT}, and no node has them; {INSTEAD}'
    ]


def test_requests_of_two_classes_can_agree(said, asking, device_class, gpu, on_node):
    nic = {"name": "nic-0", "attributes": {ROOT: {"string": "a"}}}
    classes = [device_class(), device_class("nic", 'device.driver == "nic.example.com"')]
    cluster = [*classes, on_node("node-1", nic, driver="nic.example.com")]
    claim = asking(constraints=[match(ROOT)], others=[{"name": "nic", "exactly": {"deviceClassName": "nic"}}])
    near, far = (on_node("node-1", gpu(x=None, **{ROOT.replace("/", "__"): root})) for root in "ab")
    assert said("GA226", claim, *cluster, near) == []
    assert len(said("GA226", claim, *cluster, far)) == 1


def test_values_of_other_types_never_agree(said, asking, device_class, gpu, on_node):
    nic = {"name": "nic-0", "attributes": {"resource.kubernetes.io/numaNode": {"string": "0"}}}
    cluster = [
        device_class(),
        device_class("nic", 'device.driver == "nic.example.com"'),
        on_node("node-1", gpu(resource=None, **{"resource.kubernetes.io__numaNode": 0})),
        on_node("node-1", nic, driver="nic.example.com"),
    ]
    constraint = match("resource.kubernetes.io/numaNode")
    claim = asking(constraints=[constraint], others=[{"name": "nic", "exactly": {"deviceClassName": "nic"}}])
    assert said("GA226", claim, *cluster, path=PATH) == [
        (
            "matchAttribute: never agrees: resource.kubernetes.io/numaNode is a number and text for the devices of "
            f'"gpu" and "nic"; {INSTEAD}'
        )
    ]


@pytest.mark.parametrize("sees_slices", [True, False])
def test_attribute_that_no_device_has_is_reported(said, asking, device_class, gpu, on_node, sees_slices):
    slices = [device_class(), on_node("node-1", gpu("gpu-0"), gpu("gpu-1"))] if sees_slices else []
    claim = asking(count=2, constraints=[match("gpu.nvidia.com/parentUUID", "gpu")])
    assert said("GA226", claim, *slices, path=PATH) == [
        (
            'matchAttribute: is on gpu.nvidia.com/parentUUID, which no device has that request "gpu" can get; remove the '
            "constraint; only MIG slices, of class mig.nvidia.com, have a parentUUID"
        )
    ]


@pytest.mark.parametrize(
    ("attribute", "remedy"),
    [
        ("gpu.nvidia.com/productname", "write gpu.nvidia.com/productName"),
        ("nvidia.com/productName", "write gpu.nvidia.com/productName"),
        ("gpu.nvidia.com/colour", "constrain an attribute that they have, or remove the constraint"),
    ],
)
@pytest.mark.parametrize("count", [1, 2])
def test_attribute_of_another_name_is_reported(said, asking, roots, attribute, remedy, count):
    claim = asking(count=count, constraints=[match(attribute)])
    reported = f'matchAttribute: is on {attribute}, which no device has that request "gpu" can get; {remedy}'
    assert said("GA226", claim, *roots("a", "b"), path=PATH) == [reported]


def test_attribute_that_some_devices_lack_leaves_the_others(said, asking, roots, gpu, on_node):
    claim = asking(count=2, constraints=[match(ROOT)])
    assert said("GA226", claim, *roots("a", "a"), on_node("node-2", gpu())) == []


@pytest.mark.parametrize(("count", "fine"), [(2, True), (3, False)])
def test_no_more_than_differ_can_be_had(said, asking, roots, count, fine):
    claim = asking(count=count, constraints=[{"distinctAttribute": ROOT}])
    expected = f'distinctAttribute: wants 3 devices for "gpu" that differ in {ROOT}, and no node has more than 2 that do; {INSTEAD}'
    assert said("GA226", claim, *roots("a", "a", "b", "b"), path=PATH) == ([] if fine else [expected])


def test_constraint_on_other_requests_is_not_asked(said, asking, roots):
    other = {"name": "other", "exactly": {"deviceClassName": "gpu.nvidia.com"}}
    claim = asking(count=3, constraints=[match(ROOT, "other")], others=[other])
    assert said("GA226", claim, *roots("a", "b", "c")) == []


def test_constraint_on_one_alternative_is_not_asked(said, asking, roots):
    claim = asking(constraints=[match("gpu.nvidia.com/parentUUID", "gpu/a")])
    alternatives = [{"name": name, "deviceClassName": "gpu.nvidia.com"} for name in "ab"]
    claim["spec"]["devices"]["requests"] = [{"name": "gpu", "firstAvailable": alternatives}]
    assert said("GA226", claim, *roots("a", "b")) == []


def test_more_devices_than_there_are_is_left_to_another_rule(said, asking, roots):
    assert said("GA226", asking(count=5, constraints=[match(ROOT)]), *roots("a", "b")) == []


def test_all_needs_one_that_agrees(said, asking, roots):
    assert said("GA226", asking(allocationMode="All", constraints=[match(ROOT)]), *roots("a", "b")) == []


def test_other_drivers_without_slices_give_no_finding(said, asking):
    claim = asking(count=2, device_class="nic", constraints=[match("nic.example.com/port")])
    assert said("GA226", claim) == []
