"""The table of known products agrees with the MIG tables and with itself."""

import re

import pytest

from policies.nvidia.known_products import KNOWN_PRODUCTS
from policies.nvidia.mig_products import is_capable, product_named

each = pytest.mark.parametrize("known", KNOWN_PRODUCTS)


@each
def test_label_is_one_that_nodes_can_have(known):
    assert re.fullmatch(r"(NVIDIA|Tesla|Quadro)-[A-Za-z0-9-]{1,54}[A-Za-z0-9]", known)


@each
def test_whether_mig_divides_it_is_known(known):
    assert is_capable({"nvidia.com/gpu.product": known}) is (product_named(known) is not None)


def test_every_product_is_named_once():
    assert len(set(KNOWN_PRODUCTS)) == len(KNOWN_PRODUCTS)
