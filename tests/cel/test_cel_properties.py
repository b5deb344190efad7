"""What holds for every expression and every device, whatever they are.

Expressions come from `expressions.Writer`, which knows every function and macro; Hypothesis decides what it writes.
"""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from policies.cel import CelCompileError, CelDevice, CelFeatures, CelRuntimeError, compile_selector, types
from policies.cel.interpreter.stack import COST_LIMIT
from policies.cel.selectors import _UNCOUNTED_COST, _compile
from policies.cel.types import list_of
from tests.cel.costs import actual_cost
from tests.cel.expressions import Writer, device, mutated
from tests.properties import examples

REFUSED = "refused"
RANDOMS = st.randoms(use_true_random=False)
OURS_ALONE = re.compile(
    r"quantity|semver|ip\(|cidr|url\(|format|capacity|optional|\.\?|\[\?|ver|first|last|dyn\(|type\(|device\.attributes"
)
"""What may have values of Kubernetes' own types, which only know how to compare themselves, or of unknown types."""

SCALARS = [types.INT, types.UINT, types.DOUBLE, types.STRING, types.BYTES, types.BOOL, types.DURATION, types.TIMESTAMP]

many = settings(max_examples=examples(45), suppress_health_check=list(HealthCheck))
few = settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))


def outcome(text, on, features=CelFeatures()):  # noqa: B008 - immutable
    """A verdict, the words of a failure, or that the expression is refused."""
    try:
        return compile_selector(text, features).matches(on)
    except CelCompileError:
        return REFUSED
    except CelRuntimeError as error:
        return error.message


def kind(found):
    """True, False, "refused" or "fails"; None for an evaluation that ended at once, which depends on what came first."""
    if isinstance(found, bool) or found == REFUSED:
        return found
    return None if found.startswith(("internal error", "operation ")) else "fails"


def verdict_or_words(ask):
    try:
        return ask()
    except CelRuntimeError as error:
        return error.message


def counted(text, on):
    """The outcome of the evaluation with a meter."""
    selector = _compile(text, CelFeatures())
    selector.__dict__["_code"] = None
    return verdict_or_words(lambda: selector.matches(on))


@st.composite
def texts(draw, wanted=types.BOOL):
    random = draw(RANDOMS)
    return Writer(random).write(wanted, depth=draw(st.integers(0, 3)))


@st.composite
def mutated_texts(draw):
    return mutated(draw(RANDOMS), draw(texts()))


DEVICES = RANDOMS.map(device)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
KINDS = st.sampled_from(["int", "ints", "string", "strings", "bool", "bools", "version", "versions", "value", "x"])
ITEMS = st.dictionaries(
    st.sampled_from(["index", "a/b", "/", "", "a/"]), st.dictionaries(KINDS, JSON, max_size=2) | JSON
)
MALFORMED_DEVICES = st.fixed_dictionaries(
    {},
    optional={
        "driver": st.just("dra.example.com") | JSON,
        "attributes": ITEMS | JSON,
        "capacity": ITEMS | JSON,
        "allowMultipleAllocations": JSON,
    },
)


@many
@given(
    st.one_of(texts(), mutated_texts(), texts(types.DYN), st.text()),
    DEVICES,
    st.builds(CelFeatures, st.booleans(), st.booleans(), st.booleans()),
)
def test_any_text_has_a_verdict_or_fails_with_words(text, on, features):
    assert isinstance(outcome(text, on, features), bool | str)


@many
@given(MALFORMED_DEVICES, st.booleans())
def test_any_device_has_a_verdict_or_fails_with_words(on, has_lists):
    text = 'device.attributes[device.driver].all(name, name != "x") && device.capacity.all(domain, domain != "y")'
    found = outcome(text, on, CelFeatures(list_type_attributes=has_lists))

    assert found is True or (isinstance(found, str) and found != REFUSED)


@many
@given(texts(), DEVICES)
def test_meter_changes_no_outcome(text, on):
    found = outcome(text, on)

    assume(found != REFUSED)
    exactly = counted(text, on)
    assume(kind(exactly) is not None)  # a panic behind a failure is only seen where evaluation goes on after it
    assert found == exactly


@many
@given(texts(), DEVICES)
def test_device_read_before_is_the_device(text, on):
    assert outcome(text, CelDevice.read(on)) == outcome(text, on)


@many
@given(texts(), st.lists(DEVICES, min_size=1, max_size=4))
def test_many_devices_are_matched_as_one_by_one(text, devices):
    assume(outcome(text, devices[0]) != REFUSED)
    selector = compile_selector(text)
    together = [
        str(found) if isinstance(found, CelRuntimeError) else found for found in selector.matches_all(devices * 2)
    ]

    assert together == [outcome(text, on) for on in devices] * 2


@few
@given(texts(), DEVICES)
def test_selector_forgets_what_it_was_asked(text, on):
    found = outcome(text, on)

    assume(found != REFUSED)
    assert outcome(text, on) == found
    assert verdict_or_words(lambda: _compile(text, CelFeatures()).matches(on)) == found


@few
@given(texts(), DEVICES)
def test_threads_do_not_meet(text, on):
    alone = outcome(text, on)

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: outcome(text, on), range(8))) == [alone] * 8


@many
@given(texts(), DEVICES)
def test_what_is_not_counted_could_not_reach_the_limit(text, on):
    """In Kubernetes too a static cost is no bound: `endsWith("")` and `validate` cost more, the latter nine times."""
    assume(kind(outcome(text, on)) in (True, False))
    selector = compile_selector(text)

    assert actual_cost(selector, on) <= 9 * selector.max_cost + 9
    assert 9 * _UNCOUNTED_COST + 9 <= COST_LIMIT


@many
@given(texts(), texts(), DEVICES)
def test_negated_and_is_or_of_negations(one, other, on):
    left, right = outcome(f"!(({one}) && ({other}))", on), outcome(f"!({one}) || !({other})", on)

    assert kind(left) == kind(right)


@many
@given(texts(), texts(), DEVICES)
def test_order_of_and_does_not_matter(one, other, on):
    left, right = kind(outcome(f"({one}) && ({other})", on)), kind(outcome(f"({other}) && ({one})", on))

    assume(None not in (left, right))
    assert left == right


@many
@given(st.data(), st.sampled_from(SCALARS + [list_of(scalar) for scalar in SCALARS]), DEVICES)
def test_equality_is_symmetric(data, wanted, on):
    one, other = data.draw(texts(wanted)), data.draw(texts(wanted))
    assume(not OURS_ALONE.search(one + other))

    assert kind(outcome(f"({one}) == ({other})", on)) == kind(outcome(f"({other}) == ({one})", on))


@many
@given(texts(), DEVICES)
def test_choosing_between_the_same_is_no_choice(text, on):
    assert kind(outcome(f"device.allowMultipleAllocations ? ({text}) : ({text})", on)) == kind(outcome(text, on))


@many
@given(st.data(), RANDOMS, st.sampled_from(SCALARS), DEVICES)
def test_bound_name_stands_for_its_expression(data, random, wanted, on):
    value = data.draw(texts(wanted))
    body = Writer(random).write_in_scope([("bound", wanted)], types.BOOL, 2)
    assume(not OURS_ALONE.search(value))
    by_name = kind(outcome(f"cel.bind(bound, {value}, {body})", on))
    in_place = kind(outcome(re.sub(r"\bbound\b", lambda _: f"({value})", body), on))

    assume(REFUSED not in (by_name, in_place))  # constants that fail are refused where they stand
    assert by_name == in_place


@st.composite
def folds(draw):
    """A list and a condition on `x`, one of its elements."""
    element = draw(st.sampled_from(SCALARS))
    elements = draw(texts(list_of(element)))
    return elements, Writer(draw(RANDOMS)).write_in_scope([("x", element)], types.BOOL, 2)


@many
@given(folds(), DEVICES)
def test_all_is_no_exception(fold, on):
    elements, condition = fold
    left = outcome(f"({elements}).all(x, {condition})", on)
    right = outcome(f"!({elements}).exists(x, !({condition}))", on)

    assert kind(left) == kind(right)


@many
@given(folds(), DEVICES)
def test_exactly_one_is_what_a_filter_leaves(fold, on):
    elements, condition = fold
    left = kind(outcome(f"({elements}).exists_one(x, {condition})", on))
    right = kind(outcome(f"({elements}).filter(x, {condition}).size() == 1", on))

    assert left == right


@many
@given(st.data(), st.sampled_from(SCALARS), DEVICES)
def test_member_equals_some_element(data, wanted, on):
    value, elements = data.draw(texts(wanted)), data.draw(texts(list_of(wanted)))
    assume(not OURS_ALONE.search(value + elements))
    left = kind(outcome(f"({value}) in ({elements})", on))
    right = kind(outcome(f"({elements}).exists(each, each == ({value}))", on))

    assume("fails" not in (left, right))  # an empty list is asked for nothing
    assert left == right
