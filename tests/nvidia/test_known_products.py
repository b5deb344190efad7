"""The table of known products agrees with what is known of MIG, and with itself."""

import re

import pytest

from policies.nvidia.known_products import KNOWN_PRODUCTS
from policies.nvidia.mig_products import is_capable, product_named
from policies.nvidia.wishes.families import FAMILIES

each = pytest.mark.parametrize("known", KNOWN_PRODUCTS, ids=[known.label for known in KNOWN_PRODUCTS])


@each
def test_label_is_one_that_nodes_can_have(known):
    assert re.fullmatch(r"(NVIDIA|Tesla|Quadro)-[A-Za-z0-9-]{1,54}[A-Za-z0-9]", known.label)


@each
def test_family_has_the_compute_capability(known):
    limits = list(FAMILIES.items())
    position = list(FAMILIES).index(known.family)
    above = limits[position][1]
    below = limits[position - 1][1] if position else (0, 0)
    assert below <= known.compute_capability
    assert above is None or known.compute_capability < above


@each
def test_memory_is_what_mig_divides(known):
    product = product_named(known.label)
    assert product is None or -(-known.memory // 1024) in product.memory


@each
def test_whether_mig_divides_it_is_known(known):
    assert is_capable({"nvidia.com/gpu.product": known.label}) is (product_named(known.label) is not None)


def test_every_product_is_named_once():
    labels = [known.label for known in KNOWN_PRODUCTS]
    assert len(set(labels)) == len(labels)
