"""Products by the names that people use."""

import pytest

from policies.nvidia.product_proposals import choose_products
from policies.nvidia.products import KNOWN_PRODUCTS
from policies.nvidia.wishes import WishError


@pytest.mark.parametrize(
    ("text", "patterns", "labels"),
    [
        ("T4", "Tesla-T4", "Tesla-T4"),
        ("tesla-t4", "tesla-t4", "Tesla-T4"),
        ("A100-80GB", "A100*80GB*", "NVIDIA-A100-80GB-PCIe NVIDIA-A100-SXM4-80GB"),
        ("A100 80GB", "A100*80GB*", "NVIDIA-A100-80GB-PCIe NVIDIA-A100-SXM4-80GB"),
        (
            "V100-32GB",
            "*V100*32GB",
            "Tesla-V100-PCIE-32GB Tesla-V100-SXM2-32GB Tesla-V100-SXM3-32GB Tesla-V100S-PCIE-32GB",
        ),
        ("A100-PCIE", "A100*PCIe*", "NVIDIA-A100-PCIE-40GB NVIDIA-A100-80GB-PCIe"),
        ("H100", "H100*", "NVIDIA-H100-PCIe NVIDIA-H100-80GB-HBM3 NVIDIA-H100-NVL"),
        ("H100*,!*NVL", "H100*,!*NVL", "NVIDIA-H100-PCIe NVIDIA-H100-80GB-HBM3"),
        ("NVIDIA-H100-NVL", "H100-NVL", "NVIDIA-H100-NVL"),
        ("A10", "A10", "NVIDIA-A10"),
        ("T4, A10", "Tesla-T4,A10", "Tesla-T4 NVIDIA-A10"),
    ],
)
def test_names_of_people_are_understood(text, patterns, labels):
    choice = choose_products(text)
    assert (str(choice.patterns), " ".join(choice.labels)) == (patterns, labels)


@pytest.mark.parametrize("label", KNOWN_PRODUCTS)
def test_label_means_its_product_only(label):
    assert choose_products(label).labels == (label,)


@pytest.mark.parametrize(
    ("text", "error", "remedy"),
    [
        ("H1000", 'names an unknown product "H1000"', 'write "H100*"'),
        (
            "MI300X",
            'names an unknown product "MI300X"',
            'write the label nvidia.com/gpu.product of a known product, such as "Tesla-T4"',
        ),
        ("H100,!H*", 'is "H100,!H*", which excludes every product that it names', "exclude fewer products"),
        ("H100|T4", 'has the name "H100|T4", and "|" is in no product name', "write a comma between names"),
    ],
)
def test_name_of_no_known_product_is_refused_with_what_to_write(text, error, remedy):
    with pytest.raises(WishError) as caught:
        choose_products(text)
    assert (str(caught.value), caught.value.remedy) == (error, remedy)
