"""Features of NVIDIA's components are there from a release on, in the order in which the releases appeared."""

import re
from pathlib import Path

import pytest

from policies.kubernetes.view import UNKNOWN
from policies.nvidia.releases import DRIVER_GATES, NVIDIAFeature

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("feature", "release", "is_in"),
    [
        (NVIDIAFeature.PassthroughSupport, "v25.8.1", False),
        (NVIDIAFeature.PassthroughSupport, "25.12.0", True),
        (NVIDIAFeature.PassthroughSupport, "0.4.0", True),
        (NVIDIAFeature.VfioIOMMU, "25.12.0", False),
        (NVIDIAFeature.VfioIOMMU, "v0.4.1-rc.1", True),
        (NVIDIAFeature.ConsumableShares, "0.4.1", False),
        (NVIDIAFeature.ConsumableShares, "0.5.0-dev", True),
        (NVIDIAFeature.ConsumableShares, "1.0", True),
        (NVIDIAFeature.KnownDriver, "0.1.0", False),
        (NVIDIAFeature.KnownDriver, "25.8", True),
        (NVIDIAFeature.KnownDriver, "main", UNKNOWN),
        (NVIDIAFeature.KnownDriver, UNKNOWN, UNKNOWN),
        (NVIDIAFeature.NewDriverManager, "1.11", False),
        (NVIDIAFeature.NewDriverManager, "23.9", False),
        (NVIDIAFeature.NewDriverManager, "24.3", True),
        (NVIDIAFeature.OptionalDrain, "26.3", False),
        (NVIDIAFeature.OptionalDrain, "26.7", True),
        (NVIDIAFeature.OptionalLimitOfMPS, "v0.19.3", False),
        (NVIDIAFeature.OptionalLimitOfMPS, "v0.20.0", True),
    ],
)
def test_feature_is_in_its_first_release_and_later_ones(feature, release, is_in):
    assert feature.is_in(release) is is_in


def test_gates_are_those_that_the_driver_knows():
    assert len(DRIVER_GATES) == 18
    assert {"DynamicMIG", "AllBeta", "ContextualLogging"} < set(DRIVER_GATES)
    assert "VfioDeviceConfig" not in DRIVER_GATES


def test_row_says_that_only_its_name_is_read_exactly_if_no_code_asks_it():
    sources = (path for path in (ROOT / "policies").rglob("*.py") if path != ROOT / "policies/nvidia/releases.py")
    asked = {name for path in sources for name in re.findall(r"\bNVIDIAFeature\.(\w+)", path.read_text())}
    # Every gate without a value of its own asks them.
    asked |= {NVIDIAFeature.AllAlpha.name, NVIDIAFeature.AllBeta.name}
    assert {each.name for each in NVIDIAFeature if each.value.reading.startswith("only its name")} == {
        each.name for each in NVIDIAFeature if each.name not in asked
    }
