"""Products that MIG can divide: by name, device id and node labels; shipped configurations."""

import pytest

from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_layouts import excess
from policies.nvidia.mig_products import (
    device_ids,
    gpu_count,
    is_capable,
    node_product,
    product_named,
    product_of_device,
    shipped_configs,
)

SHIPPED = """
all-disabled all-enabled all-balanced all-1g.5gb all-1g.5gb.me all-2g.10gb all-3g.20gb all-4g.20gb all-7g.40gb
all-1g.24gb.gfx all-1g.24gb.me.all all-1g.24gb-me all-2g.48gb all-2g.48gb.gfx all-2g.48gb.me.all all-2g.48gb-me
all-4g.96gb all-4g.96gb.gfx all-1g.10gb all-1g.10gb.me all-1g.20gb all-2g.20gb all-3g.40gb all-4g.40gb all-7g.80gb
all-1g.6gb all-1g.6gb.me all-2g.12gb all-2g.12gb.me all-4g.24gb all-1g.12gb all-1g.12gb.me all-1g.24gb
all-1g.24gb.me all-2g.24gb all-1g.47gb all-2g.47gb all-3g.93gb all-4g.93gb all-7g.186gb all-3g.47gb all-4g.47gb
all-7g.94gb all-3g.48gb all-4g.48gb all-7g.96gb all-1g.18gb all-1g.18gb.me all-1g.23gb all-1g.23gb.me all-1g.35gb
all-1g.35gb.me all-2g.35gb all-3g.71gb all-4g.71gb all-7g.141gb all-1g.34gb all-1g.34gb.me all-1g.36gb all-1g.45gb
all-1g.67gb all-1g.70gb all-2g.36gb all-2g.45gb all-2g.67gb all-2g.70gb all-3g.72gb all-3g.90gb all-3g.95gb
all-3g.135gb all-3g.139gb all-4g.72gb all-4g.90gb all-4g.95gb all-4g.135gb all-4g.139gb all-7g.144gb all-7g.180gb
all-7g.189gb all-7g.269gb all-7g.278gb
"""
PRODUCT, MEMORY = "nvidia.com/gpu.product", "nvidia.com/gpu.memory"


@pytest.mark.parametrize(
    ("label", "product"),
    [
        ("NVIDIA-A100-SXM4-40GB", "A100 40GB"),
        ("A100-PCIE-40GB", "A100 40GB"),
        ("NVIDIA-A800-40GB-Active", "A100 40GB"),
        ("NVIDIA-A100-SXM4-80GB", "A100 80GB"),
        ("NVIDIA-A100-80GB-PCIe", "A100 80GB"),
        ("NVIDIA-A30", "A30"),
        ("NVIDIA-H100-80GB-HBM3", "H100 80GB"),
        ("NVIDIA-H100-PCIe", "H100 80GB"),
        ("NVIDIA-H800", "H100 80GB"),
        ("NVIDIA-H100-NVL", "H100 NVL"),
        ("NVIDIA-GH200-480GB", "H100 96GB"),
        ("NVIDIA-H20", "H100 96GB"),
        ("NVIDIA-H200", "H200"),
        ("NVIDIA-H200-NVL", "H200"),
        ("NVIDIA-GH200-144G-HBM3e", "GH200 144GB"),
        ("NVIDIA-B200", "B200"),
        ("NVIDIA-GB200", "GB200"),
        ("NVIDIA-B300-SXM6-AC", "B300"),
        ("NVIDIA-GB300", "GB300"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "RTX PRO 6000"),
        ("NVIDIA A100-SXM4-40GB", "A100 40GB"),
    ],
)
def test_product_is_known_by_its_label(label, product):
    assert product_named(label).name == product


@pytest.mark.parametrize(
    "label", ["Tesla-T4", "NVIDIA-A10G", "NVIDIA-A10", "NVIDIA-L40S", "NVIDIA-RTX-PRO-5000-Blackwell", ""]
)
def test_other_products_are_none(label):
    assert product_named(label) is None


@pytest.mark.parametrize(
    ("device", "product"),
    [
        *(("20b0", "A100 40GB"), ("20B5", "A100 80GB"), ("20B7", "A30"), ("2330", "H100 80GB"), ("2321", "H100 NVL")),
        *(("2342", "H100 96GB"), ("2335", "H200"), ("2348", "GH200 144GB"), ("2901", "B200"), ("2941", "GB200")),
        *(("3182", "B300"), ("31C2", "GB300"), ("2BB5", "RTX PRO 6000")),
    ],
)
def test_product_is_known_by_its_device_id(device, product):
    assert product_of_device(device).name == product


def test_unknown_device_id_is_no_product():
    assert product_of_device("1EB8") is None


@pytest.mark.parametrize(
    ("labels", "memory"),
    [
        ({PRODUCT: "NVIDIA-A100-SXM4-40GB", MEMORY: "40536"}, (40,)),
        ({PRODUCT: "NVIDIA-H100-80GB-HBM3-SHARED", MEMORY: "81559"}, (80,)),
        ({PRODUCT: "NVIDIA-H200", MEMORY: "143771"}, (141,)),
        ({PRODUCT: "NVIDIA-B200", MEMORY: "183359"}, (180,)),
        ({PRODUCT: "NVIDIA-GB200", MEMORY: "189471"}, (186,)),
        ({PRODUCT: "NVIDIA-GB200", MEMORY: "193000"}, (189,)),
        ({PRODUCT: "NVIDIA-GB200"}, (186, 189)),
        ({PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", MEMORY: "4864"}, (40,)),
        ({PRODUCT: "NVIDIA-A100-SXM4-40GB-MIG-INVALID", MEMORY: "0"}, (40,)),
        ({PRODUCT: "NVIDIA-A100-SXM4-40GB", MEMORY: "4864"}, (40,)),
        ({PRODUCT: "NVIDIA-A100-SXM4-40GB", MEMORY: "much"}, (40,)),
    ],
)
def test_memory_is_the_drivers_where_the_label_tells_of_whole_gpus(labels, memory):
    assert node_product(labels).memory == memory


@pytest.mark.parametrize("name", ["3g.93gb", "3g.95gb", "1g.23gb", "1g.24gb", "7g.189gb"])
def test_both_names_of_a_gb200_are_its_own(name):
    assert product_of_device("2941").match(MIGProfile.parse(name)).exact


def test_other_name_does_not_fit_better():
    wanted = {MIGProfile.parse("3g.95gb"): 2, MIGProfile.parse("1g.24gb"): 1}
    assert [excess(each, wanted) for each in product_of_device("2941").geometries] == ["9 of 8 memory slices"] * 2


@pytest.mark.parametrize(
    ("labels", "capable"),
    [
        ({"nvidia.com/mig.capable": "true"}, True),
        ({"nvidia.com/mig.capable": "false", PRODUCT: "NVIDIA-A30"}, False),
        ({"nvidia.com/vgpu.host-driver-version": "525.60.12", "nvidia.com/mig.capable": "true"}, False),
        ({PRODUCT: "NVIDIA-A30"}, True),
        ({PRODUCT: "Tesla-T4-SHARED"}, False),
        ({PRODUCT: "Tesla-V100-SXM2-16GB"}, False),
        ({PRODUCT: "NVIDIA-A10G"}, False),
        ({PRODUCT: "NVIDIA-L40S"}, False),
        ({PRODUCT: "NVIDIA-GeForce-RTX-4090"}, False),
        ({PRODUCT: "NVIDIA-RTX-6000-Ada-Generation"}, False),
        ({PRODUCT: "NVIDIA-RTX-PRO-5000-Blackwell"}, None),
        ({PRODUCT: "NVIDIA-A100-SXM-64GB"}, None),
        ({}, None),
    ],
)
def test_capability_is_reported_by_label_or_name(labels, capable):
    assert is_capable(labels) is capable


@pytest.mark.parametrize(
    "name",
    SHIPPED.split(),
)
def test_configurations_of_the_operator_are_known(name):
    assert name in shipped_configs()


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("NVIDIA-A100-SXM4-80GB", {"20B2"}),
        ("NVIDIA-A100-PCIE-40GB", {"20B1", "20F1"}),
        ("NVIDIA-H100-PCIe", {"2331"}),
        ("NVIDIA-GB200", {"2941"}),
        ("NVIDIA-A800-SXM4-40GB", {"20B0", "20B1", "20F1", "20F6"}),
        ("Tesla-T4", set()),
    ],
)
def test_device_ids_are_those_of_the_board_if_it_is_known(name, ids):
    assert device_ids(name) == ids


@pytest.mark.parametrize(
    ("labels", "count"),
    [
        ({"nvidia.com/gpu.count": "4", PRODUCT: "NVIDIA-A30"}, 4),
        ({"nvidia.com/gpu.count": "16", PRODUCT: "NVIDIA-A30-MIG-1g.6gb"}, None),
        ({"nvidia.com/gpu.count": "0", PRODUCT: "NVIDIA-A30-MIG-INVALID"}, None),
        ({"nvidia.com/gpu.count": "many"}, None),
        ({}, None),
    ],
)
def test_gpus_are_counted_unless_the_label_counts_mig_devices(labels, count):
    assert gpu_count(labels) == count
