"""Expressions with one condition on one part of a device."""

import pytest

from policies.devices.conditions import read_condition

NAME = 'device.attributes["gpu.nvidia.com"].productName'


@pytest.mark.parametrize(
    "text",
    [f'{NAME} == "T4"', f'{NAME}.replace(" ", "-") == "T4"', f'{NAME}.lowerAscii() == "T4"', f'"T4" == {NAME}'],
)
def test_another_spelling_of_a_name_is_a_condition_on_the_name(text):
    found = read_condition(text)
    assert (found.operator, found.values) == ("==", ("T4",))


@pytest.mark.parametrize("operator", ['== "Tesla T4"', 'in ["Tesla T4"]'])
def test_another_replacement_may_compare_the_name_of_another_product(operator):
    assert read_condition(f'{NAME}.replace("NVIDIA H200", "Tesla T4") {operator}') is None
