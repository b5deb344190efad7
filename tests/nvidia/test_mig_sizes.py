"""Estimated sizes of MIG devices beside those that `nvidia-smi mig -lgip` shows on real GPUs."""

import pytest

from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_products import mig_size, product_named

SHOWN = [
    ("NVIDIA-A100-SXM4-80GB", 81920, "2g.20gb", 19.5),
    ("NVIDIA-H100-NVL", 95830, "1g.12gb", 10.75),
    ("NVIDIA-H100-NVL", 95830, "1g.24gb", 21.62),
    ("NVIDIA-H200", 143771, "1g.18gb", 16.0),
    ("NVIDIA-H200", 143771, "2g.35gb", 32.25),
    ("NVIDIA-H200", 143771, "3g.71gb", 69.5),
    ("NVIDIA-H200", 143771, "7g.141gb", 140.0),
    ("NVIDIA-B200", 183359, "1g.23gb", 20.5),
    ("NVIDIA-B200", 183359, "1g.23gb", 22.0),
    ("NVIDIA-B200", 183359, "2g.45gb", 44.25),
    ("NVIDIA-GB200", 189471, "1g.24gb", 20.0),
    ("NVIDIA-GB200", 189471, "2g.47gb", 45.5),
    ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", 97887, "1g.24gb", 23.12),
]
"""Product and memory as labels have them, profile, and GiB; two drivers differ on the B200."""


@pytest.mark.parametrize(("product", "memory", "profile", "shown"), SHOWN)
@pytest.mark.parametrize("is_known", [True, False], ids=["memory of the GPU is known", "memory is unknown"])
def test_memory_of_a_real_device_lies_within_the_bounds_of_its_estimate(product, memory, profile, shown, is_known):
    parsed = MIGProfile.parse(profile)
    size = mig_size(product, product_named(product), parsed, memory if is_known else None)
    least, most = size.bounds
    assert least <= shown * 1024 <= most
    assert least <= size.memory <= most


@pytest.mark.parametrize(
    ("product", "profile", "memory"),
    [("NVIDIA-A100-SXM4-40GB", "1g.5gb", 4864), ("NVIDIA-H100-80GB-HBM3", "3g.40gb", 40448)],
)
def test_size_that_was_measured_has_no_bounds(product, profile, memory):
    size = mig_size(product, product_named(product), MIGProfile.parse(profile), None)
    assert (size.memory, size.bounds) == (memory, None)


def test_profile_that_the_gpu_does_not_have_has_no_size():
    size = mig_size("NVIDIA-H200", product_named("NVIDIA-H200"), MIGProfile(1, 5), None)
    assert (size.memory, size.bounds) == (None, None)
