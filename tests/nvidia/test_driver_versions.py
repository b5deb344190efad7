"""Driver versions: branches, full versions, and requirements of GPUs."""

import pytest

from policies.nvidia.products import DriverVersion, driver_needs, needs_open_modules, needs_proprietary_modules


def version(text):
    return DriverVersion.parse(text)


@pytest.mark.parametrize("text", ["", "v580", "580.65.06-ubuntu22.04", "sha256:ab", "latest", "580.", "58", "1.2.3.4"])
def test_other_text_is_no_driver_version(text):
    assert version(text) is None


def test_one_number_is_a_branch():
    assert version("580").is_branch
    assert not version("580.65.06").is_branch
    assert version("580.65.06").branch == 580


@pytest.mark.parametrize("text", ["570.86.15", "570.124.06", "570.172.08", "575.57.08", "580", "570"])
def test_container_chooses_modules(text):
    assert version(text).knows_auto


@pytest.mark.parametrize("text", ["570.86.10", "570.86.16", "565.57.01", "550.54.15", "535", "470.82.01"])
def test_older_container_does_not_choose_modules(text):
    assert not version(text).knows_auto


def test_branch_is_not_below_a_version_of_its_own():
    assert not version("570").is_below(570, 133, 20)
    assert version("565").is_below(570, 133, 20)
    assert version("570.86.15").is_below(570, 133, 20)
    assert not version("570.133.20").is_below(570, 133, 20)


@pytest.mark.parametrize(
    ("product", "family", "gpu", "needed"),
    [
        ("NVIDIA-B200", "blackwell", "HGX B200", "570.133.20"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "blackwell", "RTX PRO 6000", "575.57.08"),
        ("NVIDIA-H200-SHARED", "hopper", "H200", "550"),
        ("NVIDIA-GB200", "blackwell", "Blackwell", "570"),
        ("NVIDIA-GH200-480GB", "hopper", "Hopper", "525"),
        ("NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "hopper", "Hopper", "525"),
    ],
)
def test_gpu_needs_a_driver(product, family, gpu, needed):
    need = driver_needs({"nvidia.com/gpu.product": product, "nvidia.com/gpu.family": family})
    assert (need.gpu, str(need)) == (gpu, needed)


def test_older_gpus_need_none_in_particular():
    assert driver_needs({"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.family": "turing"}) is None
    assert driver_needs({}) is None


def test_families_before_turing_need_proprietary_modules():
    assert [
        family
        for family in ("maxwell", "pascal", "volta", "turing", "ampere", "hopper", "blackwell", "undefined")
        if needs_proprietary_modules({"nvidia.com/gpu.family": family})
    ] == ["maxwell", "pascal", "volta"]


@pytest.mark.parametrize("product", ["NVIDIA-GH200-480GB", "NVIDIA-GB200", "GB300"])
def test_grace_needs_open_modules(product):
    assert needs_open_modules({"nvidia.com/gpu.product": product, "nvidia.com/gpu.family": "hopper"})


def test_hopper_alone_does_not_need_open_modules():
    assert not needs_open_modules({"nvidia.com/gpu.product": "NVIDIA-H100-PCIe", "nvidia.com/gpu.family": "hopper"})
    assert needs_open_modules({"nvidia.com/gpu.family": "blackwell"})
