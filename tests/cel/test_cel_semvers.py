"""Semantic versions, with the results of Kubernetes 1.36.2."""

from __future__ import annotations

import itertools

import pytest

from policies.cel.errors import CelRuntimeError
from policies.cel.libraries.semvers import LIBRARY, Semver

OVERLOADS = {overload.id: overload for overload in LIBRARY}

ASCENDING = (
    "0.0.0-0",
    "0.0.0",
    "0.9.0",
    "0.10.0",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-10",
    "1.0.0--",
    "1.0.0-A",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
)


def run(overload_id, *arguments):
    return OVERLOADS[overload_id].implementation(*arguments)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Version string empty"),
        ("1", "No Major.Minor.Patch elements found"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("v1.2.3", 'Invalid character(s) found in major number "v1"'),
        ("1.b.3", 'Invalid character(s) found in minor number "b"'),
        ("1.2.3.4", 'Invalid character(s) found in patch number "3.4"'),
        ('1.2."3', 'Invalid character(s) found in patch number "\\"3"'),
        ("1.2.3\n", 'Invalid character(s) found in patch number "3\\n"'),
        ("01.2.3", 'Major number must not contain leading zeroes "01"'),
        ("1.02.3", 'Minor number must not contain leading zeroes "02"'),
        ("1.2.03", 'Patch number must not contain leading zeroes "03"'),
        ("1..3", 'strconv.ParseUint: parsing "": invalid syntax'),
        (
            "18446744073709551616.1.1",
            'strconv.ParseUint: parsing "18446744073709551616": value out of range',
        ),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-a..b", "Prerelease is empty"),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.2.3-é", 'Invalid character(s) found in prerelease "é"'),
        ("1.2.3+", "Build meta data is empty"),
        ("1.2.3+a_b", 'Invalid character(s) found in build meta data "a_b"'),
    ],
)
def test_text_that_is_no_version_fails_in_kubernetes_words(text, message):
    with pytest.raises(CelRuntimeError) as failed:
        run("string_to_semver", text)
    assert failed.value.message == message
    assert not run("is_semver_string", text)
    assert not run("is_semver_string_bool", text, False)


@pytest.mark.parametrize(
    ("text", "strict"),
    [
        ("v1.2.3", "1.2.3"),
        ("1", "1.0.0"),
        ("550.90", "550.90.0"),
        ("01.002.0003", "1.2.3"),
        ("00.0.00", "0.0.0"),
        ("v1.2.00-rc.1", "1.2.0-rc.1"),
        ("1.2.0-a", "1.2.0-a"),
    ],
)
def test_normalized_version_is_read_without_prefix_and_leading_zeros(text, strict):
    assert run("string_bool_to_semver", text, True) == Semver.read(strict)
    assert run("is_semver_string_bool", text, True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("vv1.2.3", 'Invalid character(s) found in major number "0v1"'),
        ("1.2-a", "short version cannot contain PreRelease/Build meta data"),
        ("1+a", "short version cannot contain PreRelease/Build meta data"),
        ("", 'strconv.ParseUint: parsing "": invalid syntax'),
        ("é", 'Invalid character(s) found in major number "0é"'),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
    ],
)
def test_normalized_text_that_is_no_version_fails_in_kubernetes_words(text, message):
    with pytest.raises(CelRuntimeError) as failed:
        Semver.read_normalized(text)
    assert failed.value.message == message


@pytest.mark.parametrize(("left", "right"), list(itertools.pairwise(ASCENDING)))
def test_precedence_is_that_of_semver_org(left, right):
    lower, higher = Semver.read(left), Semver.read(right)
    assert run("semver_compare_to", lower, higher) == -1
    assert run("semver_compare_to", higher, lower) == 1
    assert run("semver_is_less_than", lower, higher)
    assert run("semver_is_greater_than", higher, lower)
    assert lower != higher


def test_build_metadata_does_not_count():
    left, right = Semver.read("1.2.3+a"), Semver.read("1.2.3+b.1")
    assert left == right
    assert hash(left) == hash(right)
    assert run("semver_compare_to", left, right) == 0


def test_version_is_not_equal_to_its_text():
    assert Semver.read("1.2.3") != "1.2.3"


def test_elements_are_ints():
    version = Semver.read("1.22.333-a")
    assert [run(f"semver_{element}", version) for element in ("major", "minor", "patch")] == [1, 22, 333]


def test_an_element_beyond_63_bits_turns_negative():
    version = Semver.read("18446744073709551615.9223372036854775808.0")
    assert run("semver_major", version) == -1
    assert run("semver_minor", version) == -(2**63)
    assert run("semver_compare_to", version, Semver.read("1.0.0")) == 1
