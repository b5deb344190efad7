"""Optional values, with the results of Kubernetes 1.36.2."""

from __future__ import annotations

import pytest

from policies.cel.errors import CelRuntimeError
from policies.cel.libraries.optionals import LIBRARY
from policies.cel.libraries.quantities import Quantity
from policies.cel.libraries.times import Duration, Timestamp
from policies.cel.types import INT
from policies.cel.values import Concatenation, Map, Optional, UInt

OVERLOADS = {overload.id: overload for overload in LIBRARY}

NONE = Optional()


def run(overload_id, *arguments):
    return OVERLOADS[overload_id].implementation(*arguments)


@pytest.mark.parametrize("value", [1, 0, "", None, NONE])
def test_of_holds_any_value(value):
    assert run("optional_of", value) == Optional(value)


def test_none_holds_nothing():
    assert run("optional_none") == NONE


@pytest.mark.parametrize(
    "value",
    [
        None,
        False,
        0,
        UInt(0),
        0.0,
        "",
        b"",
        (),
        Map({}),
        Duration(0),
        Timestamp(-62_135_596_800 * 10**9),
    ],
    ids=repr,
)
def test_of_non_zero_value_leaves_zero_out(value):
    assert run("optional_ofNonZeroValue", value) == NONE


@pytest.mark.parametrize(
    "value",
    [True, -1, UInt(1), float("nan"), " ", b"\0", (0,), Map({"a": 0}), Timestamp(0), Quantity.read("0"), NONE, INT],
    ids=lambda value: type(value).__name__,
)
def test_of_non_zero_value_keeps_what_is_not_zero(value):
    held = run("optional_ofNonZeroValue", value).value
    assert held is value


def test_value_of_none_fails():
    with pytest.raises(CelRuntimeError) as failed:
        run("optional_value", NONE)
    assert failed.value.message == "optional.none() dereference"


def test_value_is_what_is_held():
    assert run("optional_value", Optional(1)) == 1


def test_has_value_tells_whether_something_is_held():
    assert run("optional_hasValue", Optional(None))
    assert not run("optional_hasValue", NONE)


def test_first_and_last_are_those_of_the_list():
    elements = Concatenation((1, 2), (3,))
    assert run("list_first", elements) == Optional(1)
    assert run("list_last", elements) == Optional(3)


def test_first_and_last_of_an_empty_list_are_none():
    assert run("list_first", ()) == NONE
    assert run("list_last", ()) == NONE


@pytest.mark.parametrize("overload_id", ["optional_unwrap", "optional_unwrapOpt"])
def test_unwrapping_keeps_what_is_held(overload_id):
    assert run(overload_id, (Optional(1), NONE, Optional(None))) == (1, None)


@pytest.mark.parametrize(
    ("overload_id", "name"), [("optional_unwrap", "optional.unwrap"), ("optional_unwrapOpt", "unwrapOpt")]
)
def test_unwrapping_a_list_that_begins_otherwise_is_no_such_overload(overload_id, name):
    with pytest.raises(CelRuntimeError) as failed:
        run(overload_id, (1, Optional(1)))
    assert failed.value.message == f"no such overload: {name}(list)"


@pytest.mark.parametrize(
    ("value", "shown"), [("a b", "a b"), (1.5, "1.5"), (True, "true"), ((1, 2), "[1, 2]"), (b"ab", "[97 98]")]
)
def test_unwrapping_what_is_not_optional_fails(value, shown):
    with pytest.raises(CelRuntimeError) as failed:
        run("optional_unwrapOpt", (NONE, value))
    assert failed.value.message == f"value {shown} is not optional"


@pytest.mark.parametrize(
    ("overload_id", "arguments"),
    [
        ("optional_or_optional", (NONE, NONE)),
        ("optional_orValue_value", (NONE, 1)),
        ("select_optional_field", (1, "a")),
    ],
)
def test_what_the_evaluator_does_itself_cannot_be_called(overload_id, arguments):
    with pytest.raises(CelRuntimeError):
        run(overload_id, *arguments)
