"""Predicates: their CEL, their wording, and their simplification."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.nvidia.number_predicates import CapacityIs, MemoryWithin, VersionAtLeast, VersionIs, VersionPart
from policies.nvidia.predicates import (
    FALSE,
    TRUE,
    AllOf,
    AnyOf,
    Not,
    Present,
    ProductLike,
    ProfileSlices,
    TextIn,
    all_of,
    any_of,
    cel_string,
    negate,
)
from tests.published import published_device

A = 'device.attributes["gpu.nvidia.com"]'
C = 'device.capacity["gpu.nvidia.com"]'
NAME = f'{A}.productName.lowerAscii().replace(" ", "-")'
PROFILE = f'{A}.profile.lowerAscii().replace("+", ".")'
L40S = TextIn("productName", ("NVIDIA-L40S",), "dashed", "product")
T4 = TextIn("productName", ("Tesla-T4",), "dashed", "product")
HOPPER = TextIn("architecture", ("hopper",), "lower dashed", "family")
MAJOR = VersionPart("cudaComputeCapability", "major", ">", 8)
MEMORY = CapacityIs("memory", ((">=", "81559Mi"), ("<", "81560Mi")))


@pytest.mark.parametrize(
    ("predicate", "cel", "words"),
    [
        (Present("productName"), f"has({A}.productName)", "any productName"),
        (
            TextIn("profile", ("1g.10gb+me",), name="MIG profile"),
            f'has({A}.profile) && {A}.profile == "1g.10gb+me"',
            "MIG profile 1g.10gb+me",
        ),
        (
            TextIn("productName", ("Tesla-T4", "NVIDIA-L40S"), "dashed", "product"),
            f'has({A}.productName) && {A}.productName.replace(" ", "-") in ["Tesla-T4", "NVIDIA-L40S"]',
            "product Tesla-T4 or NVIDIA-L40S",
        ),
        (
            HOPPER,
            f'has({A}.architecture) && {A}.architecture.lowerAscii().replace(" ", "-") == "hopper"',
            "family hopper",
        ),
        (
            ProfileSlices(3),
            f'has({A}.profile) && {A}.profile.startsWith("3g.")',
            "MIG profile 3g.*",
        ),
        (
            MAJOR,
            f"has({A}.cudaComputeCapability) && {A}.cudaComputeCapability.major() > 8",
            "cudaComputeCapability major > 8",
        ),
        (
            VersionIs("driverVersion", (580, 95, 5)),
            f'has({A}.driverVersion) && {A}.driverVersion.compareTo(semver("580.95.5")) == 0',
            "driverVersion 580.95.5",
        ),
        (
            MEMORY,
            f'has({C}.memory) && {C}.memory.compareTo(quantity("81559Mi")) >= 0 && {C}.memory.compareTo(quantity("81560Mi")) < 0',
            "memory >= 81559Mi and memory < 81560Mi",
        ),
        (CapacityIs("memory", ()), f"has({C}.memory)", "any memory"),
        (
            VersionAtLeast("driverVersion", (580, 95, 5), "driver", "580.95.05"),
            f'has({A}.driverVersion) && {A}.driverVersion.compareTo(semver("580.95.5")) >= 0',
            "driver 580.95.05 or newer",
        ),
        (
            MemoryWithin(40960, 81559),
            f'has({C}.memory) && {C}.memory.compareTo(quantity("40960Mi")) >= 0 && {C}.memory.compareTo(quantity("81560Mi")) < 0',
            "memory at least 40960Mi and at most 81559Mi",
        ),
        (MemoryWithin(), f"has({C}.memory)", "any memory"),
        (
            MemoryWithin(40960, 40960, is_whole=True),
            (
                f'has({C}.memory) && {C}.memory.compareTo(quantity("39936Mi")) >= 0 && {C}.memory.compareTo(quantity("40961Mi")) < 0'
                f' && ({C}.memory.compareTo(quantity("40960Mi")) >= 0 || has({C}.multiprocessors))'
            ),
            "memory 40960Mi",
        ),
        (
            MemoryWithin(None, 81300, is_whole=True),
            (
                f'has({C}.memory) && {C}.memory.compareTo(quantity("81301Mi")) < 0'
                f' && ({C}.memory.compareTo(quantity("81152Mi")) < 0 || !has({C}.multiprocessors))'
            ),
            "memory at most 81300Mi",
        ),
        (
            ProductLike(("H100*", "A100.?"), ("*MIG*",)),
            (
                f"has({A}.productName) && "
                f'{NAME}.matches("(?s)^(nvidia-)?(a100[.].|h100.*)$") && !{NAME}.matches("(?s)^(nvidia-)?(.*mig.*)$")'
            ),
            "product H100* or A100.?, not *MIG*",
        ),
        (
            ProductLike(("A100",), (), "name with profile"),
            (
                f"has({A}.productName) && has({A}.profile) && "
                f'({NAME} + "-mig-" + {PROFILE}).matches("(?s)^(nvidia-)?(a100)$")'
            ),
            "product A100",
        ),
        (
            ProductLike(("A100*",), ("*40GB",), "name with profile"),
            (
                f"has({A}.productName) && has({A}.profile) && "
                f'({NAME} + "-mig-" + {PROFILE}).matches("(?s)^(nvidia-)?(a100.*)$") && '
                f'!({NAME}.matches("(?s)^(nvidia-)?(.*40gb)$") || '
                f'({NAME} + "-mig-" + {PROFILE}).matches("(?s)^(nvidia-)?(.*40gb)$"))'
            ),
            "product A100*, not *40GB",
        ),
        (
            ProductLike((), ("A100",), "either"),
            (
                f"has({A}.productName) && has({A}.profile) && "
                f'!({NAME}.matches("(?s)^(nvidia-)?(a100)$") || '
                f'({NAME} + "-mig-" + {PROFILE}).matches("(?s)^(nvidia-)?(a100)$"))'
            ),
            "product not A100",
        ),
        (Not(L40S), f"!({L40S.cel()})", "not product NVIDIA-L40S"),
        (AllOf((HOPPER, MAJOR)), f"{HOPPER.cel()} && {MAJOR.cel()}", "family hopper, cudaComputeCapability major > 8"),
        (
            AllOf((AnyOf((HOPPER, MAJOR)), L40S)),
            f"(({HOPPER.cel()}) || ({MAJOR.cel()})) && {L40S.cel()}",
            "(family hopper or cudaComputeCapability major > 8), product NVIDIA-L40S",
        ),
        (
            AnyOf((AllOf((HOPPER, MAJOR)), L40S)),
            f"({HOPPER.cel()} && {MAJOR.cel()}) || ({L40S.cel()})",
            "(family hopper, cudaComputeCapability major > 8) or product NVIDIA-L40S",
        ),
        (
            Not(AnyOf((HOPPER, MAJOR))),
            f"!(({HOPPER.cel()}) || ({MAJOR.cel()}))",
            "not (family hopper or cudaComputeCapability major > 8)",
        ),
    ],
)
def test_predicate_tells_its_cel_and_its_words(predicate, cel, words):
    assert predicate.cel() == cel
    assert predicate.words() == words


def test_constants_are_constants_in_cel():
    assert (TRUE.cel(), FALSE.cel()) == ("true", "false")
    nothing = published_device({})
    assert TRUE.matches(nothing)
    assert not FALSE.matches(nothing)


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], TRUE),
        ([L40S], L40S),
        ([TRUE], TRUE),
        ([TRUE, L40S], L40S),
        ([FALSE], FALSE),
        ([L40S, FALSE], FALSE),
        ([FALSE, TRUE], FALSE),
        ([L40S, L40S], L40S),
        ([AllOf((L40S, HOPPER)), L40S], AllOf((HOPPER, L40S))),
        ([L40S, all_of([HOPPER, MAJOR])], AllOf((HOPPER, MAJOR, L40S))),
        ([AnyOf((L40S, HOPPER))], AnyOf((L40S, HOPPER))),
    ],
)
def test_conjunction_is_simplified(parts, expected):
    assert all_of(parts) == expected


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([], FALSE),
        ([L40S], L40S),
        ([FALSE], FALSE),
        ([FALSE, L40S], L40S),
        ([TRUE], TRUE),
        ([L40S, TRUE], TRUE),
        ([TRUE, FALSE], TRUE),
        ([L40S, L40S], L40S),
        ([AnyOf((MAJOR, HOPPER)), MAJOR], AnyOf((HOPPER, MAJOR))),
        ([AllOf((HOPPER, L40S))], AllOf((HOPPER, L40S))),
    ],
)
def test_disjunction_is_simplified(parts, expected):
    assert any_of(parts) == expected


def test_values_of_one_attribute_become_one_list():
    both = TextIn("productName", ("NVIDIA-L40S", "Tesla-T4"), "dashed", "product")
    assert any_of([T4, L40S]) == any_of([L40S, T4, L40S]) == any_of([T4, both]) == both


def test_values_are_in_alphabetical_order():
    names = ["Tesla-T4", "NVIDIA-L4", "NVIDIA-A10G", "NVIDIA-L40S", "NVIDIA-H200", "NVIDIA-GB200", "NVIDIA-B200"]
    merged = any_of(TextIn("productName", (name,), "dashed", "product") for name in names)
    assert merged == TextIn("productName", tuple(sorted(names)), "dashed", "product")


def test_values_in_another_spelling_stay_apart():
    other = TextIn("productName", ("Tesla T4",))
    assert any_of([T4, other]) == AnyOf((other, T4))


def test_conjunction_does_not_merge_values():
    assert all_of([T4, L40S]) == AllOf((L40S, T4))


def test_constants_are_negated_to_each_other():
    assert negate(TRUE) == FALSE
    assert negate(FALSE) == TRUE
    assert negate(L40S) == Not(L40S)


@given(st.permutations([L40S, T4, HOPPER, MAJOR, MEMORY, Not(L40S), AllOf((HOPPER, MEMORY))]))
def test_order_of_the_parts_does_not_matter(parts):
    assert all_of(parts) == all_of(parts[::-1])
    assert any_of(parts) == any_of(parts[::-1])


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("NVIDIA L40S", '"NVIDIA L40S"'),
        ('"', r'"\""'),
        ("\\", r'"\\"'),
        ('" || true || "', r'"\" || true || \""'),
        ('\\" || true', r'"\\\" || true"'),
        ("a\nb", r'"a\U0000000ab"'),
        ("\u2028\0", r'"\U00002028\U00000000"'),
        ("ü", '"ü"'),
    ],
)
def test_text_is_written_as_a_cel_string(text, literal):
    assert cel_string(text) == literal
