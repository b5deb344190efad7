"""MIG profiles: go-nvlib's own cases, both spellings, and invalid profiles."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.nvidia.mig import MIGProfile


@pytest.mark.parametrize(
    ("text", "profile"),
    [
        ("1g.5gb", MIGProfile(1, 5)),
        ("7g.141gb", MIGProfile(7, 141)),
        ("1g.5gb+me", MIGProfile(1, 5, "+me")),
        ("1g.5gb+me.all", MIGProfile(1, 5, "+me.all")),
        ("1g.5gb+gfx", MIGProfile(1, 5, "+gfx")),
        ("1g.24gb-me", MIGProfile(1, 24, "-me")),
        ("1g.5gb+me,you,them", MIGProfile(1, 5, "+me,you,them")),
        ("1c.2g.10gb", MIGProfile(2, 10, "", 1)),
        ("1c.2g.10gb+me", MIGProfile(2, 10, "+me", 1)),
        ("0g.0gb", MIGProfile(0, 0)),
    ],
)
def test_profile_is_read_and_spelt_as_nvml_spells_it(text, profile):
    assert MIGProfile.parse(text) == profile
    assert str(profile) == text


@pytest.mark.parametrize("rest", ["", "+me", "-me", "+me.all", "+gfx"])
def test_compute_instance_that_fills_its_gpu_instance_is_not_spelt_out(rest):
    profile = MIGProfile.parse(f"1c.1g.5gb{rest}")
    assert profile == MIGProfile.parse(f"1g.5gb{rest}")
    assert str(profile) == f"1g.5gb{rest}"


@pytest.mark.parametrize(
    "text",
    # go-nvlib pkg/nvlib/device/mig_profile_test.go TestParseMigProfile, validFormat false.
    [
        *("", " 1c.1g.5gb", "1 c.1g.5gb", "1c .1g.5gb", "1c. 1g.5gb", "1c.1 g.5gb", "1c.1g .5gb", "1c.1g. 5gb"),
        *("1c.1g.5 gb", "1c.1g.5g b", "1c.1g.5gb ", "1c . 1g . 5gb", "1c.f1g.5gb", "1r.1g.5gb", "1g.5gbk", "1g.5"),
        *("g.5gb", "1g.gb", "1g.5gb+me,me", "1g.5gb+", "1g.5gb +", "1g.5gb+ ", "1g.5gb+ ,", "1g.5gb+,,"),
        *("1g.5gb+me,", "1g.5gb+,me", "1g.5gb+me ,you", "1g.5gb+1me", "1g.5gb+.me", "1g.5gb+me.", "1g.5gb+m_e"),
        *("1g.5gb+me-me", "1g.5gb-me+me", "1g.5gb++me", "1g.5gb-", "1g.5gb+mé", "1g.5GB", "1G.5gb", "1g.5gb\n"),
    ],
)
def test_what_go_nvlib_refuses_is_no_profile(text):
    assert MIGProfile.parse(text) is None


@pytest.mark.parametrize(
    "text",
    ["10000g.500000gb", "100g.5gb", "1g.10000gb", "0c.1g.5gb", "-1g.5gb", "1.g.5gb", "\u0661g.5gb", "mig-1g.5gb"],
)
def test_what_no_gpu_has_is_no_profile(text):
    assert MIGProfile.parse(text) is None


@pytest.mark.parametrize(
    ("label", "text"),
    [
        ("1g.5gb", "1g.5gb"),
        ("1g.10gb.me", "1g.10gb+me"),
        ("1g.24gb.me.all", "1g.24gb+me.all"),
        ("4g.96gb.gfx", "4g.96gb+gfx"),
        ("1g.24gb-me", "1g.24gb-me"),
        ("1c.2g.10gb", "1c.2g.10gb"),
        ("1c.2g.10gb.me", "1c.2g.10gb+me"),
    ],
)
def test_label_form_has_dots_for_plus_signs(label, text):
    profile = MIGProfile.from_label(label)
    assert str(profile) == text
    assert profile.label == label


@pytest.mark.parametrize(
    "label", ["", "1g.10gb+me", "1g.10gb,me", "1g.5gb.", "1g.5gb.1", "1g.5gb.-me", "INVALID", "1g.5gb "]
)
def test_what_is_no_label_form_is_no_profile(label):
    assert MIGProfile.from_label(label) is None


@pytest.mark.parametrize(
    ("text", "shares"),
    [("1g.5gb", False), ("1c.1g.5gb", False), ("7c.7g.40gb", False), ("1c.2g.10gb", True), ("3c.7g.40gb+me", True)],
)
def test_smaller_compute_instance_shares_its_gpu_instance(text, shares):
    assert MIGProfile.parse(text).shares_gpu_instance is shares


def test_profiles_are_ordered_by_size():
    spelt = ["7g.40gb", "1g.5gb+me", "1c.2g.10gb", "2g.10gb", "1g.10gb", "1g.5gb", "10g.5gb"]
    ordered = ["1g.5gb", "1g.5gb+me", "1g.10gb", "2g.10gb", "1c.2g.10gb", "7g.40gb", "10g.5gb"]
    assert [str(profile) for profile in sorted(map(MIGProfile.parse, spelt))] == ordered


attributes = st.from_regex(r"[a-z][A-Za-z0-9]{0,4}(\.[A-Za-z0-9]{1,3})?", fullmatch=True)
profiles = st.builds(
    lambda compute, slices, memory, sign, names: MIGProfile(
        slices, memory, sign + ",".join(names) if names else "", 0 if compute == slices else compute
    ),
    st.integers(0, 12),
    st.integers(0, 99),
    st.integers(0, 9999),
    st.sampled_from("+-"),
    st.lists(attributes, max_size=3, unique=True),
)


@given(profiles)
def test_profile_survives_its_spelling(profile):
    assert MIGProfile.parse(str(profile)) == profile


@given(profiles.filter(lambda profile: "," not in profile.attributes))
def test_profile_survives_its_label(profile):
    assert MIGProfile.from_label(profile.label) == profile


@given(st.text(st.sampled_from("0123456789cgb.+-,me a"), max_size=16))
def test_any_text_is_a_profile_or_none(text):
    profile = MIGProfile.parse(text)
    assert profile is None or MIGProfile.parse(str(profile)) == profile
