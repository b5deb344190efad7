"""The table of known products agrees with the MIG tables and with itself; a misspelt name means a product of its model."""

import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from policies.nvidia.mig_products import is_capable, product_named
from policies.nvidia.product_names import ProductNames, bare_name
from policies.nvidia.products import KNOWN_PRODUCTS

each = pytest.mark.parametrize("known", KNOWN_PRODUCTS)


@each
def test_label_is_one_that_nodes_can_have(known):
    assert re.fullmatch(r"(NVIDIA|Tesla|Quadro)-[A-Za-z0-9-]{1,54}[A-Za-z0-9]", known)


@each
def test_whether_mig_divides_it_is_known(known):
    assert is_capable({"nvidia.com/gpu.product": known}) is (product_named(known) is not None)


def test_every_product_is_named_once():
    assert len(set(KNOWN_PRODUCTS)) == len(KNOWN_PRODUCTS)


NAMES = ProductNames.of(KNOWN_PRODUCTS)
MODEL = re.compile(r"(?:GH|GB|RTX-A|RTX-PRO-|[ABHLPTV])?[0-9]+[GS]?(?:-3e|(?=-Ada|-SFF-Ada))?(?:-SFF)?(?:-Ada)?")
"""The model in the name of a known product, which is the first number with its letters."""


def model_of(name):
    return MODEL.search(name)[0].replace("-SFF", "")


MODELS = {model_of(bare_name(label)) for label in KNOWN_PRODUCTS}


@given(st.sampled_from(KNOWN_PRODUCTS), st.data())
def test_misspelt_name_means_products_of_its_model_only(label, data):
    position = data.draw(st.integers(0, len(label) - 1))
    letter = data.draw(st.sampled_from("ABGHLRSTXPQ0123456789-"))
    kept = data.draw(st.integers(0, 1))
    written = (
        label[:position] + data.draw(st.sampled_from(["", letter, label[position]])) + label[position + 1 - kept :]
    )
    others = MODELS - {model_of(bare_name(label))}
    assume(not any(re.search(rf"(?<![A-Z0-9]){other}(?![A-Z0-9])", written, re.IGNORECASE) for other in others))
    assert {model_of(name) for name in NAMES.products_like(written)} <= {model_of(bare_name(label))}


@pytest.mark.parametrize("label", KNOWN_PRODUCTS)
def test_lower_case_without_the_brand_means_the_product_only(label):
    assert NAMES.products_like(bare_name(label).lower()) == [bare_name(label)]


@pytest.mark.parametrize("label", KNOWN_PRODUCTS)
def test_label_means_its_product_only(label):
    assert NAMES.products_like(label) == [bare_name(label)]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("NVIDIA-H100-SXM5-80GB", ["H100-80GB-HBM3"]),
        ("NVIDIA-H100-PCIE-80GB", ["H100-PCIe"]),
        ("NVIDIA-B200-SXM-180GB", ["B200"]),
        ("NVIDIA-H200-SXM5-141GB", ["H200"]),
        ("NVIDIA-GH200-96GB", ["GH200-480GB"]),
        ("NVIDIA-A100-SMX4-8OGB", ["A100-SXM4-80GB"]),
        ("NVIDIA-RTX4090", ["GeForce-RTX-4090"]),
        ("NVIDIA-RTX-4000-Ada", ["RTX-4000-Ada-Generation"]),
        ("NVIDIA-L4-24GB", ["L4"]),
    ],
)
def test_name_means_the_products_that_agree_with_all_it_tells(written, meant):
    assert NAMES.products_like(written) == meant


@pytest.mark.parametrize(
    "written",
    [
        "NVIDIA-H200-80GB",
        "NVIDIA-A100-SXM4-96GB",
        "NVIDIA-A100-NVL",
        "NVIDIA-L4-48GB",
        "NVIDIA-H20-PCIe",
        "NVIDIA-B100",
        "NVIDIA-A1000",
        "NVIDIA-RTX-7000",
        "NVIDIA-H10",
        "A" * 64,
    ],
)
def test_name_that_tells_what_no_product_has_means_none(written):
    assert NAMES.products_like(written) == []


@pytest.mark.parametrize(
    ("written", "pattern"),
    [("Tesla-V10O", "Tesla-V100-*"), ("RTX-PRO-6000", "RTX-PRO-6000*"), ("RTX-6000", "Quadro-RTX-6000")],
)
def test_suggested_pattern_selects_products_of_the_model_only(written, pattern):
    assert NAMES.suggestion(written) == pattern


def test_name_is_compared_with_no_more_products_than_clusters_have():
    many = [f"NVIDIA-H{number}-80GB" for number in range(1000, 1400)]
    found = [ProductNames.of(labels).products_like("H1000-80") for labels in (many[:200], many)]
    assert found == [["H1000-80GB"], []]
