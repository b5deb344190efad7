"""Published GPUs that no label and no wish can distinguish are one group."""

from policies.devices.published_devices import gpu_groups
from policies.kubernetes.view import UNKNOWN
from webhook.cluster.manifests import ManifestsView

H100 = {
    "type": {"string": "gpu"},
    "productName": {"string": "NVIDIA H100 80GB HBM3"},
    "architecture": {"string": "Hopper"},
}


def device(name, attributes=None, memory="80Gi", **more):
    attributes = {**H100, "uuid": {"string": f"GPU-{name}"}, **(attributes or {})}
    return {"name": name, "attributes": attributes, "capacity": {"memory": {"value": memory}}, **more}


def view(*devices, node="a", driver="gpu.nvidia.com", more=()):
    pool = {"name": node, "generation": 1}
    spec = {"driver": driver, "pool": pool, "nodeName": node, "devices": list(devices)}
    name = {"name": f"{node}-{driver}"}
    first = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": name, "spec": spec}
    return ManifestsView([first, *more])


def counts(cluster):
    return sorted(len(group.devices) for group in gpu_groups(cluster))


def test_gpus_are_unknown_while_slices_are():
    assert gpu_groups(ManifestsView()) is UNKNOWN


def test_there_are_no_gpus_without_devices():
    none = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSliceList", "items": []}
    assert gpu_groups(ManifestsView([none])) == ()


def test_like_devices_are_one_group():
    (group,) = gpu_groups(view(device("gpu-0"), device("gpu-1"), device("gpu-2")))
    assert (len(group.devices), set(group.by_node), group.type) == (3, {"a"}, "gpu")
    assert group.first.name == "gpu-0"


def test_like_devices_of_several_nodes_are_one_group():
    other = view(device("gpu-0"), node="b").list("ResourceSlice")[0]
    (group,) = gpu_groups(view(device("gpu-0"), device("gpu-1"), more=[other]))
    assert (len(group.devices), set(group.by_node)) == (3, {"a", "b"})


def test_what_a_selector_can_tell_apart_is_another_group():
    devices = [
        device("gpu-0"),
        device("gpu-1", {"architecture": {"string": "Ampere"}}),
        device("gpu-2", memory="40Gi"),
        device("gpu-3", allowMultipleAllocations=True),
        device("gpu-4", {"driverVersion": {"version": "580.95.5"}}),
    ]
    assert counts(view(*devices)) == [1, 1, 1, 1, 1]


def test_what_tells_individuals_apart_makes_no_group():
    devices = [
        device("gpu-0", {"parentUUID": {"string": "GPU-x"}, "gpuModuleID": {"int": 1}}),
        device("gpu-1", {"parentUUID": {"string": "GPU-y"}, "gpuModuleID": {"int": 2}}),
    ]
    assert counts(view(*devices)) == [2]


def test_places_of_other_domains_make_no_group():
    devices = [
        device("gpu-0", {"resource.kubernetes.io/pciBusID": {"string": "0000:18:00.0"}}),
        device("gpu-1", {"resource.kubernetes.io/pciBusID": {"string": "0000:2a:00.0"}}),
    ]
    assert counts(view(*devices)) == [2]


def test_memory_slices_of_mig_devices_make_no_group():
    one, two = device("gpu-0-mig-1g5gb-19-0"), device("gpu-0-mig-1g5gb-19-1")
    one["capacity"]["memorySlice0"] = {"value": "1"}
    two["capacity"]["memorySlice1"] = {"value": "1"}
    assert counts(view(one, two)) == [2]


def test_devices_of_other_drivers_are_left_out():
    assert gpu_groups(view(device("channel-0"), driver="compute-domain.nvidia.com")) == ()


def test_product_is_spelt_as_labels_spell_it():
    (group,) = gpu_groups(view(device("gpu-0")))
    assert group.product == "NVIDIA-H100-80GB-HBM3"


def test_product_of_a_mig_device_names_its_profile():
    mig = device("gpu-0-mig-1g10gb-19-0", {"type": {"string": "mig"}, "profile": {"string": "1g.10gb+me"}})
    (group,) = gpu_groups(view(mig))
    assert (group.type, group.product) == ("mig", "NVIDIA-H100-80GB-HBM3 MIG 1g.10gb+me")


def test_device_without_attributes_is_in_the_gpu_groups():
    (group,) = gpu_groups(view({"name": "gpu-0"}))
    assert (group.type, group.product) == ("", "a GPU without a name")


def test_many_values_of_what_a_selector_can_read_are_many_groups():
    devices = [device(f"gpu-{n}", {"driverVersion": {"version": f"580.{n}.0"}}) for n in range(40)]
    groups = gpu_groups(view(*devices))
    assert len({group.first.attributes["gpu.nvidia.com/driverVersion"] for group in groups}) == len(groups) == 40


def test_what_labels_never_say_makes_no_group():
    devices = [device(f"gpu-{n}", {"resource.kubernetes.io/numaNode": {"int": n}}) for n in range(2)]
    assert counts(view(*devices)) == [2]
