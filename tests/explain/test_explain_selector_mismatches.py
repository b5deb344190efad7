"""Selectors that do not match, in plain words."""

from __future__ import annotations

import pytest

MEMORY = 'device.capacity["gpu.nvidia.com"].memory'
ATTRIBUTES = 'device.attributes["gpu.nvidia.com"]'


@pytest.mark.parametrize(
    ("selector", "words"),
    [
        (f'{MEMORY}.compareTo(quantity("100Gi")) >= 0', "has 81559Mi of memory, 100Gi requested"),
        (f'{MEMORY}.isGreaterThan(quantity("81559Mi"))', "has 81559Mi of memory, more than 81559Mi requested"),
        (f'{MEMORY}.isLessThan(quantity("40Gi"))', "has 81559Mi of memory, less than 40Gi requested"),
        (f'{MEMORY}.compareTo(quantity("40Gi")) <= 0', "has 81559Mi of memory, at most 40Gi requested"),
        (f'0 <= {MEMORY}.compareTo(quantity("100Gi"))', "has 81559Mi of memory, 100Gi requested"),
        (f'{MEMORY} == quantity("40Gi")', "has 81559Mi of memory, 40Gi requested"),
        (f'{ATTRIBUTES}.productName == "NVIDIA L40S"', "has productName NVIDIA H100 80GB HBM3, NVIDIA L40S requested"),
        (f'"NVIDIA L40S" == {ATTRIBUTES}.productName', "has productName NVIDIA H100 80GB HBM3, NVIDIA L40S requested"),
        (
            f'{ATTRIBUTES}.productName.replace(" ", "-") == "NVIDIA-L40S"',
            "has productName NVIDIA H100 80GB HBM3, NVIDIA-L40S requested",
        ),
        (
            f'{ATTRIBUTES}["productName"] in ["A", "B"]',
            "has productName NVIDIA H100 80GB HBM3, one of A and B requested",
        ),
        (
            f'{ATTRIBUTES}.productName.startsWith("Tesla")',
            'has productName NVIDIA H100 80GB HBM3, one that starts with "Tesla" requested',
        ),
        (f'{ATTRIBUTES}.type != "gpu"', "has type gpu, anything but gpu requested"),
        (
            f'{ATTRIBUTES}.cudaComputeCapability.compareTo(semver("10.0.0")) >= 0',
            "has cudaComputeCapability 9.0.0, 10.0.0 or later requested",
        ),
        (
            f'{ATTRIBUTES}.cudaComputeCapability.isLessThan(semver("9.0.0"))',
            "has cudaComputeCapability 9.0.0, one before 9.0.0 requested",
        ),
        (f"has({ATTRIBUTES}.nvlink) && {ATTRIBUTES}.nvlink", "has no attribute nvlink"),
        (f'"nvlink" in {ATTRIBUTES}', "has no attribute nvlink"),
        ('has(device.capacity["gpu.nvidia.com"].cores)', "has no capacity cores"),
        ("device.allowMultipleAllocations", "is for one claim only, the opposite requested"),
        ('device.driver == "gpu.amd.com"', "is of driver gpu.nvidia.com, gpu.amd.com requested"),
        (
            f'{ATTRIBUTES}.type == "mig" || {ATTRIBUTES}.productName == "x"',
            (
                f'does not satisfy {ATTRIBUTES}.type == "mig" || {ATTRIBUTES}.productName == "x" '
                "(type is gpu and productName is NVIDIA H100 80GB HBM3)"
            ),
        ),
        (
            f'device.driver == "gpu.nvidia.com" && {MEMORY}.compareTo(quantity("100Gi")) >= 0',
            "has 81559Mi of memory, 100Gi requested",
        ),
    ],
)
def test_mismatch_says_what_the_device_has_and_what_is_requested(ask, k8s, selector, words):
    answer = ask(k8s.claim(k8s.selecting(selector)), k8s.node(), k8s.resource_slice([k8s.gpu(0)]))
    assert answer.groups[0].reason.details == (f"gpu-0 {words}",)


def test_lack_of_several_devices_is_reported_in_the_plural(ask, k8s):
    devices = [*k8s.gpus(4, memory="40Gi"), k8s.gpu(4)]
    asked = k8s.selecting(f'{MEMORY}.compareTo(quantity("81559Mi")) >= 0', count=2)
    answer = ask(k8s.claim(asked), k8s.node(), k8s.resource_slice(devices))
    assert answer.groups[0].reason.sentence == (
        "request gpu requests 2 devices of class gpu.nvidia.com; 1 of 5 can serve it"
    )
    assert answer.groups[0].reason.details == ("gpu-0..gpu-3 have 40Gi of memory, 81559Mi requested",)


def test_lack_of_many_values_is_reported_as_one(ask, k8s):
    answer = ask(k8s.claim(k8s.selecting(f'{ATTRIBUTES}.uuid == "GPU-x"')), k8s.node(), k8s.resource_slice(k8s.gpus(8)))
    assert answer.groups[0].reason.details == ("gpu-0..gpu-7 have another uuid, GPU-x requested",)
