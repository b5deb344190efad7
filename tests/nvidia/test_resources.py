"""Extended resources that stand for GPUs."""

import pytest

from policies.nvidia.mig import GPUResource, MIGProfile, parse_resource


@pytest.mark.parametrize(
    ("name", "mig", "profile", "shared"),
    [
        ("nvidia.com/gpu", False, None, False),
        ("nvidia.com/gpu.shared", False, None, True),
        ("nvidia.com/mig-1g.5gb", True, MIGProfile(1, 5), False),
        ("nvidia.com/mig-1g.10gb.me", True, MIGProfile(1, 10, "+me"), False),
        ("nvidia.com/mig-1g.24gb.me.all", True, MIGProfile(1, 24, "+me.all"), False),
        ("nvidia.com/mig-4g.96gb.gfx", True, MIGProfile(4, 96, "+gfx"), False),
        ("nvidia.com/mig-1g.24gb-me", True, MIGProfile(1, 24, "-me"), False),
        ("nvidia.com/mig-1g.5gb.shared", True, MIGProfile(1, 5), True),
        ("nvidia.com/mig-1g.10gb.me.shared", True, MIGProfile(1, 10, "+me"), True),
        ("nvidia.com/mig-1c.2g.10gb", True, MIGProfile(2, 10, "", 1), False),
        ("nvidia.com/mig-", True, None, False),
        ("nvidia.com/mig-small", True, None, False),
        ("nvidia.com/mig-1g.10gb+me", True, None, False),
    ],
)
def test_resource_of_the_device_plugin(name, mig, profile, shared):
    assert parse_resource(name) == GPUResource(name, mig, profile, shared)


@pytest.mark.parametrize(
    "name",
    [
        *("", "cpu", "memory", "gpu", "nvidia.com/", "nvidia.com/gpu.shared.shared", "nvidia.com/gpu-memory"),
        *("nvidia.com/GPU", "nvidia.com/gpus", "nvidia.com/mig", "nvidia.com/pgpu", "nvidia.com/GA102GL_A10"),
        *("amd.com/gpu", "example.nvidia.com/gpu", "requests.nvidia.com/gpu", " nvidia.com/gpu", "nvidia.com/gpu "),
        *("deviceclass.resource.kubernetes.io/", "deviceclass.resource.kubernetes.io/fpga.example.com"),
        "deviceclass.resource.kubernetes.io/compute-domain-default-channel.nvidia.com",
        "deviceclass.resource.kubernetes.io/nvidia.com/gpu",
    ],
)
def test_resource_that_is_no_gpu(name):
    assert parse_resource(name) is None
