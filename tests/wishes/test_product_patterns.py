"""Product patterns on the names of nodes and devices."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.nvidia.mig import MIGProfile
from policies.nvidia.wishes import ProductPatterns

A100 = "NVIDIA-A100-SXM4-40GB"
H100 = "NVIDIA-H100-80GB-HBM3"
T4 = "Tesla-T4"
GB200 = "NVIDIA-GB200"
SMALL = MIGProfile(1, 5)
LARGE = MIGProfile(1, 10, "+me")
FIXTURES = (A100, H100, T4, GB200)


def admitted(text, profile=None, *, by_profile=False):
    patterns = ProductPatterns.read(text)
    return [name for name in FIXTURES if patterns.admits(name, profile, by_profile=by_profile)]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("NVIDIA-A100-SXM4-40GB", [A100]),
        ("A100-SXM4-40GB", [A100]),
        ("nvidia a100-sxm4-40gb", [A100]),
        ("A100", []),
        ("A100*", [A100]),
        ("*40GB", [A100]),
        ("?100*", [A100, H100]),
        ("H100*,A100*", [A100, H100]),
        ("H100*,A100-80GB*,!*MIG*", [H100]),
        ("*00*", [A100, H100, GB200]),
        ("NVIDIA*", [A100, H100, GB200]),
        ("!NVIDIA?*", [T4]),
        ("Tesla T4", [T4]),
        ("T4", []),
        ("*T4", [T4]),
        ("*,!GB*", [A100, H100, T4]),
        ("!Tesla*,!GB*", [A100, H100]),
        ("A100*,!A100*", []),
        ("*-MIG-*", []),
        ("A100.SXM4*", []),
    ],
)
def test_patterns_admit_whole_gpus(text, names):
    assert admitted(text) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("A100-SXM4-40GB-MIG-1g.5gb", [A100]),
        ("NVIDIA A100-SXM4-40GB-mig-1G.5GB", [A100]),
        ("A100-SXM4-40GB", []),
        ("A100*", [A100]),
        ("*1g.5gb", list(FIXTURES)),
        ("*1g?5gb", list(FIXTURES)),
        ("*2g.10gb", []),
        ("!*MIG*", []),
        ("H100*,!*-MIG-2g*", [H100]),
        ("*100*,!*40GB", [H100]),
        ("*100*,!A100-SXM4-40GB", [H100]),
    ],
)
def test_patterns_admit_mig_devices_by_the_name_that_their_label_has(text, names):
    assert admitted(text, SMALL) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("A100-SXM4-40GB-MIG-1g.5gb", [A100]),
        ("A100-SXM4-40GB", [A100]),
        ("*40GB", [A100]),
        ("*1g.5gb,!A100-SXM4-40GB", [H100, T4, GB200]),
        ("*,!*MIG*", []),
    ],
)
def test_patterns_admit_mig_devices_that_are_requested_by_profile_by_either_name(text, names):
    assert admitted(text, SMALL, by_profile=True) == names


def test_profile_is_spelt_as_in_labels():
    assert admitted("A100*-1g.10gb.me", LARGE) == [A100]


def test_blanks_of_a_product_name_are_dashes():
    assert ProductPatterns.read("A100-SXM4*").admits("NVIDIA A100-SXM4-40GB")


@pytest.mark.parametrize(
    ("text", "cancelled"),
    [
        ("H100*,!H100*", {"H100*": "H100*"}),
        ("H100-NVL,!NVIDIA-H*", {"H100-NVL": "H*"}),
        ("H100-NVL,A100*,!H?00-*,!a*", {"H100-NVL": "H?00-*", "A100*": "a*"}),
        ("A?00,!A*0?", {"A?00": "A*0?"}),
        ("A100*-MIG-1g.5gb,!*MIG*", {"A100*-MIG-1g.5gb": "*MIG*"}),
        ("!*", {"*": "*"}),
        ("*,!?*", {}),
        ("H100*,!H100", {}),
        ("H100*,!H100?*", {}),
        ("H1??,!H100", {}),
        ("H100*,A100*,!H*", {}),
        ("!*MIG*", {}),
        ("H100*", {}),
    ],
)
def test_patterns_that_cancel_each_other_are_reported(text, cancelled):
    assert ProductPatterns.read(text).cancelled_patterns() == cancelled


globs = st.text("aB1-.*?", min_size=1, max_size=6)
names = st.text("aAbB1-.", max_size=8).map(lambda text: f"NVIDIA-{text}" if text.endswith("1") else text)


@given(globs, globs, st.lists(names, max_size=20), st.booleans())
def test_patterns_that_cancel_each_other_admit_nothing(include, exclude, products, by_profile):
    patterns = ProductPatterns.read(f"{include},!{exclude}")
    if patterns.cancelled_patterns():
        assert not any(patterns.admits(name, SMALL, by_profile=by_profile) for name in products)
        assert not any(patterns.admits(name) for name in products)


@given(st.lists(globs, min_size=1, max_size=3), names)
def test_case_and_brand_make_no_difference(texts, name):
    plain, shouted = ProductPatterns.read(",".join(texts)), ProductPatterns.read(",".join(texts).upper())
    branded = ProductPatterns.read(",".join(f"nvidia {text}" for text in texts))
    assert plain.admits(name) is shouted.admits(name.lower()) is branded.admits(name)


def test_pattern_of_many_stars_is_matched_without_trying_every_way():
    patterns = ProductPatterns.read(",".join(f"{'*a' * 31}{number % 10}" for number in range(20)))
    assert not patterns.admits("a" * 64)
