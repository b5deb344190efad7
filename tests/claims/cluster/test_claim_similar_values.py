"""Values in selectors that no device has, with a similar one that exists."""

import pytest

A = 'device.attributes["gpu.nvidia.com"]'
WHERE = "selectors[0].cel.expression: no device of the cluster has"


@pytest.fixture
def compared(said, asking, device_class, gpu, on_node):
    """What GA230 and GA222 say of a selector beside an H100 80GB HBM3."""

    def compared(text):
        cluster = device_class(), on_node("node-1", gpu())
        return [*said("GA230", asking(text), *cluster), *said("GA222", asking(text), *cluster)]

    return compared


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f'{A}.productName == "NVIDIA H100 80GB HBM"', ' the productName "NVIDIA H100 80GB HBM"; write "{}"'),
        (f'"NVIDIA H100-80GB HBM3" == {A}.productName', ' the productName "NVIDIA H100-80GB HBM3"; write "{}"'),
        (f'{A}.productName in ["NVIDIA H10O 80GB HBM3"]', ' the productName "NVIDIA H10O 80GB HBM3"; write "{}"'),
        (
            f'{A}.productName.startsWith("H100")',
            ' a productName that starts with "H100", but some contain it; write contains("H100")',
        ),
    ],
)
def test_similar_value_is_proposed_instead_of_a_near_miss(compared, text, expected):
    assert compared(text) == [f"{WHERE}{expected}".replace("{}", "NVIDIA H100 80GB HBM3")]


@pytest.mark.parametrize(
    "text",
    [
        f'{A}.productName == "NVIDIA H200"',
        f'{A}.productName == "NVIDIA H300 80GB HBM3"',
        f'{A}.productName != "NVIDIA H100 80GB HBM"',
        f'{A}.productName.startsWith("NVIDIA B")',
        '"NVIDIA H100 80GB HBM3" == "NVIDIA H100 80GB HBM"',
    ],
)
def test_value_that_may_come_later_is_not_a_misspelling(said, asking, device_class, gpu, on_node, text):
    assert said("GA230", asking(text), device_class(), on_node("node-1", gpu())) == []


def test_what_is_proposed_matches(compared):
    assert compared(f'{A}.productName == "NVIDIA H100 80GB HBM3"') == []
    assert compared(f'{A}.productName.contains("H100")') == []


def test_nothing_is_compared_while_devices_are_unknown(said, asking, device_class):
    assert said("GA230", asking(f'{A}.productName == "NVIDIA H100 80GB HBM"'), device_class()) == []
