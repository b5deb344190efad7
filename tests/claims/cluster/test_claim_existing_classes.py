"""DeviceClasses that requests name must exist, if the cluster's are known."""

import pytest

MISSING = 'deviceClassName: there is no DeviceClass "{}", so the pod would stay Pending; '
INSTALL = "install the driver that brings it, or write the name of a class that exists"


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("gpus.nvidia.com", 'write "gpu.nvidia.com"'),
        ("gpu.nvidia.co", 'write "gpu.nvidia.com"'),
        ("gpu.nvidai.com", 'write "gpu.nvidia.com"'),
        ("mgi.nvidia.com", 'write "mig.nvidia.com"'),
        ("imex.nvidia.com", f"{INSTALL}: gpu.nvidia.com, mig.nvidia.com"),
        ("tpu-v7", f"{INSTALL}: gpu.nvidia.com, mig.nvidia.com"),
        ("gpu.amd.com", f"{INSTALL}: gpu.nvidia.com, mig.nvidia.com"),
        ("dra.cpu", f"{INSTALL}: gpu.nvidia.com, mig.nvidia.com"),
    ],
)
def test_class_that_does_not_exist_is_reported(said, asking, device_class, name, remedy):
    classes = [device_class("gpu.nvidia.com"), device_class("mig.nvidia.com")]
    assert said("GA224", asking(device_class=name), *classes) == [MISSING.format(name) + remedy]


def test_classes_that_compute_domains_request_are_not_listed(said, asking, device_class):
    internal = device_class("compute-domain-daemon.nvidia.com", "true")
    install = "install the driver that brings it"
    assert said("GA224", asking(device_class="dranet"), internal) == [MISSING.format("dranet") + install]


def test_of_many_classes_the_first_are_listed(said, asking, device_class):
    classes = [device_class(f"{letter}.example.com") for letter in "abcdefgh"]
    remedy = f"{INSTALL}: a.example.com, b.example.com, c.example.com, d.example.com, e.example.com and 3 more"
    assert said("GA224", asking(device_class="tpu-v7"), *classes) == [MISSING.format("tpu-v7") + remedy]


def test_class_that_exists_is_fine(said, asking, device_class):
    assert said("GA224", asking(), device_class()) == []


def test_unknown_classes_give_no_finding(said, asking):
    assert said("GA224", asking(device_class="gpus.nvidia.com")) == []


def test_name_that_no_class_can_have_is_left_to_another_rule(said, asking, device_class):
    assert said("GA224", asking(device_class="nvidia.com/gpu"), device_class()) == []


def test_class_whose_selector_does_not_compile_is_reported(said, asking, device_class):
    broken = device_class("gpu.nvidia.com", "true", "device.nothing == 1")
    assert said("GA224", asking(), broken) == [
        (
            'deviceClassName: DeviceClass "gpu.nvidia.com" has a selector that does not compile, number 2: undefined field '
            "'nothing'; no pod can get its devices; correct DeviceClass \"gpu.nvidia.com\""
        )
    ]


READS = 'device.attributes["gpu.nvidia.com"].productNam == "NVIDIA H100 80GB HBM3"'


def test_class_whose_selector_fails_on_a_device_is_reported(said, asking, device_class, gpu, on_node):
    cluster = device_class("big", READS), on_node("node-1", gpu())
    assert said("GA224", asking(device_class="big"), *cluster) == [
        (
            'deviceClassName: DeviceClass "big" has a selector that fails on gpu-0 on node-1: no such key: productNam; that stops '
            'the pod on every node; correct DeviceClass "big"'
        )
    ]


def test_class_whose_selector_may_fail_is_fine_while_devices_are_unknown(said, asking, device_class):
    assert said("GA224", asking(device_class="big"), device_class("big", READS)) == []
