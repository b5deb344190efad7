"""A predicate has the same value in Python and in CEL, and its CEL never fails."""

from fractions import Fraction
from itertools import product

from celpy import celtypes
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from policies.nvidia.number_predicates import CapacityIs, MemoryWithin, VersionAtLeast, VersionIs, VersionPart
from policies.nvidia.predicates import (
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

DRIVER = "gpu.nvidia.com"
TEXTS = {
    "productName": ["NVIDIA A100-SXM4-40GB", "NVIDIA L40S", "Tesla T4", "T4", "ÄB c\u00c9", "a\nb", 'a"b', "\\"],
    "architecture": ["Hopper", "Ada Lovelace", "HOPPER", "hopper", "Unknown", "É Lovelace"],
    "profile": ["1g.5gb", "1g.10gb+me", "3g.20gb", "10g.5gb", "g.5gb"],
}
VERSIONS = ["9.0.0", "8.9.0", "580.95.5", "580.95.5-rc.1", "580.95.5+build", "570.0.0", "0.0.0"]
VERSION_ATTRIBUTES = ["cudaComputeCapability", "driverVersion", "cudaDriverVersion"]
COMPARISONS = ["==", ">=", ">", "<"]
CAPACITIES = ["memory", "multiprocessors"]
MEBI = 1024**2
BOUNDS = ["0", "14", "4864Mi", "81559Mi", "81560Mi", "80Gi"]
AMOUNTS = [
    Fraction(0),
    Fraction(14),
    Fraction(4864 * MEBI),
    Fraction(81559 * MEBI + 1),
    Fraction(81152 * MEBI),
    Fraction(1, 2),
]


devices = st.builds(
    lambda texts, versions, capacity, others: published_device({**texts, **versions, **others}, capacity),
    st.fixed_dictionaries({}, optional={name: st.sampled_from(values) for name, values in TEXTS.items()}),
    st.fixed_dictionaries({}, optional=dict.fromkeys(VERSION_ATTRIBUTES, st.sampled_from(VERSIONS))),
    st.fixed_dictionaries({}, optional=dict.fromkeys(CAPACITIES, st.sampled_from(AMOUNTS))),
    st.fixed_dictionaries({}, optional={"partition1": st.just(0), "iommuFDEnabled": st.booleans()}),
)


def spelt(values):
    """The values as they are, and as labels spell them."""
    return [
        *values,
        *(value.replace(" ", "-") for value in values),
        *(value.lower().replace(" ", "-") for value in values),
    ]


texts = st.sampled_from(sorted(TEXTS)).flatmap(
    lambda name: st.builds(
        TextIn,
        st.just(name),
        st.sets(st.sampled_from(spelt(TEXTS[name])), max_size=3).map(lambda values: tuple(sorted(values))),
        st.sampled_from(["as is", "dashed", "lower dashed"]),
        st.just(name),
    )
)
parts = st.builds(
    VersionPart,
    st.sampled_from(VERSION_ATTRIBUTES),
    st.sampled_from(["major", "minor", "patch"]),
    st.sampled_from(COMPARISONS),
    st.sampled_from([-1, 0, 5, 8, 9, 95, 580]),
)
versions = st.builds(
    VersionIs,
    st.sampled_from(VERSION_ATTRIBUTES),
    st.sampled_from([(9, 0, 0), (580, 95, 5), (570, 0, 0), (0, 0, 0)]),
)
capacities = st.builds(
    CapacityIs,
    st.sampled_from(CAPACITIES),
    st.lists(st.tuples(st.sampled_from(COMPARISONS), st.sampled_from(BOUNDS)), max_size=2).map(tuple),
)
globs = st.lists(st.sampled_from(["*", "a100*", "L40S", "*T4", "?40s", "*mig*", "*1g.5gb", "a?b"]), max_size=3).map(
    tuple
)
products = st.builds(ProductLike, globs, globs, st.sampled_from(["name", "name with profile", "either"]))
at_least = st.builds(
    VersionAtLeast,
    st.sampled_from(VERSION_ATTRIBUTES),
    st.sampled_from([(8, 6, 0), (9, 0, 0), (580, 95, 5), (0, 0, 0)]),
    st.just("driver"),
    st.just("some"),
)
memories = st.builds(MemoryWithin, *[st.sampled_from([None, 0, 4864, 81152, 81300, 81559, 81560])] * 2, st.booleans())
leaves = (
    st.sampled_from([*TEXTS, *VERSION_ATTRIBUTES, "partition1", "missing"]).map(Present)
    | texts
    | st.sampled_from([1, 3, 10]).map(ProfileSlices)
    | parts
    | versions
    | capacities
    | products
    | at_least
    | memories
)
predicates = st.recursive(
    leaves,
    lambda inner: st.one_of(
        inner.map(Not),
        inner.map(negate),
        st.lists(inner, max_size=3).map(tuple).map(AllOf),
        st.lists(inner, max_size=3).map(tuple).map(AnyOf),
        st.lists(inner, max_size=3).map(all_of),
        st.lists(inner, max_size=3).map(any_of),
    ),
    max_leaves=6,
)
slow = settings(suppress_health_check=[HealthCheck.too_slow])


@slow
@given(predicates, st.lists(devices, min_size=1, max_size=6))
def test_predicate_says_what_its_cel_says(cel, predicate, devices):
    expression = predicate.cel()
    for device in devices:
        answer = cel(expression, device)
        assert isinstance(answer, celtypes.BoolType)
        assert bool(answer) is predicate.matches(device)


def having(name, value):
    capacity = {name: value} if name in CAPACITIES else {}
    attributes = {} if name in CAPACITIES else {name: value}
    return published_device(attributes, capacity)


def every_leaf():
    """Every leaf that there is over the values above, with every device that has its attribute."""
    for name, values in TEXTS.items():
        for spelling in ("as is", "dashed", "lower dashed"):
            for wanted in spelt(values):
                yield TextIn(name, (wanted,), spelling), [having(name, value) for value in values]
    for version in VERSIONS:
        device = having("driverVersion", version)
        for numbers in ((9, 0, 0), (580, 95, 5), (0, 0, 0)):
            yield VersionIs("driverVersion", numbers), [device]
        for part, comparison, number in product(["major", "minor", "patch"], COMPARISONS, [-1, 0, 5, 95, 580]):
            yield VersionPart("driverVersion", part, comparison, number), [device]
    for comparison, bound in product(COMPARISONS, BOUNDS):
        yield CapacityIs("memory", ((comparison, bound),)), [having("memory", amount) for amount in AMOUNTS]
    for slices in (0, 1, 3, 10):
        yield ProfileSlices(slices), [having("profile", profile) for profile in TEXTS["profile"]]


def test_leaf_says_what_its_cel_says(cel):
    for leaf, some in every_leaf():
        for device in some:
            assert bool(cel(leaf.cel(), device)) is leaf.matches(device), (leaf, device)


@given(leaves)
def test_leaf_is_false_of_a_device_that_has_nothing(cel, leaf):
    nothing = published_device({})
    assert not leaf.matches(nothing)
    assert not cel(leaf.cel(), nothing)


@given(st.lists(predicates, max_size=4), devices, st.randoms())
def test_conjunction_is_that_of_its_parts_in_any_order(parts, device, random):
    conjunction = all_of(parts)
    assert conjunction.matches(device) is all(part.matches(device) for part in parts)
    shuffled = random.sample(parts, len(parts))
    assert all_of([*shuffled, *shuffled[:1]]).cel() == all_of([*parts, *parts[:1]]).cel() == conjunction.cel()


@given(st.lists(predicates, max_size=4), devices, st.randoms())
def test_disjunction_is_that_of_its_parts_in_any_order(parts, device, random):
    disjunction = any_of(parts)
    assert disjunction.matches(device) is any(part.matches(device) for part in parts)
    assert any_of(random.sample(parts, len(parts))).cel() == disjunction.cel()
    assert any_of([disjunction, *parts]).cel() == any_of([*parts, disjunction]).cel()


@given(predicates, devices)
def test_negation_is_the_opposite(predicate, device):
    assert negate(predicate).matches(device) is not predicate.matches(device)
    assert Not(predicate).matches(device) is not predicate.matches(device)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
def test_text_does_not_break_out_of_its_literal(cel, text):
    assert cel(cel_string(text)) == text


@given(st.text(st.sampled_from("\"'\\nxuU0[](){}|&=! \n\r\t\0\x7f\u2028\U0001f600"), max_size=20))
def test_text_of_quotes_and_escapes_does_not_break_out_of_its_literal(cel, text):
    assert cel(cel_string(text)) == text
    device = published_device({"productName": text})
    assert cel(TextIn("productName", (text,)).cel(), device)
