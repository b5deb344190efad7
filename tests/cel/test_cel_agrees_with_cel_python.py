"""Agreement with cel-python, an independent CEL, where both claim to be right.

Left out is what cel-python 0.5 is known to do otherwise than Kubernetes: equality and order of different types, NaN,
`string()` of bools and doubles, methods of concatenated strings, optionals, `cel.bind`, macros of two variables and `map` with a condition, regular
expressions in constants that are refused beforehand, errors within list and map literals, within `filter` and `map`, `-` before the smallest int, `%` and `/` of negative numbers,
`in []` beside an error (Kubernetes does not look), `timestamp` and `duration`, and all functions that Kubernetes adds.
Of an error only that it is one is compared: cel-python's words are its
own. Nor does it refuse wrong types beforehand, so that only well-typed expressions are written here.
"""

from __future__ import annotations

import json

import celpy
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from policies.cel import CelCompileError, CelRuntimeError, compile_selector
from tests.properties import examples

FAILS = "fails"
NO_ANSWER = "no answer"
"""cel-python trips over errors within errors."""

ATTRIBUTES = {
    "index": {"int": 3},
    "large": {"int": 2**63 - 1},
    "model": {"string": "NVIDIA H100"},
    "empty": {"string": ""},
    "ready": {"bool": True},
    "broken": {"bool": False},
}
DEVICE = {"driver": "d", "attributes": ATTRIBUTES, "capacity": {}}
A = 'device.attributes["d"]'

quick = settings(max_examples=examples(80), suppress_health_check=list(HealthCheck))


@pytest.fixture(scope="module")
def cel_python():
    """What cel-python makes of an expression about DEVICE."""
    environment = celpy.Environment(runner_class=celpy.InterpretedRunner)
    values = {name: next(iter(value.values())) for name, value in ATTRIBUTES.items()}
    activation = {"device": celpy.json_to_cel({"driver": "d", "attributes": {"d": values}})}

    def evaluate(text):
        try:
            return bool(environment.program(environment.compile(text)).evaluate(activation))
        except celpy.CELEvalError:
            return FAILS
        except IndexError:
            return NO_ANSWER

    return evaluate


def ours(text):
    try:
        return compile_selector(text).matches(DEVICE)
    except CelRuntimeError:
        return FAILS


@st.composite
def binary(draw, operators, operands):
    return f"({draw(operands)} {draw(st.sampled_from(operators))} {draw(operands)})"


@st.composite
def chosen(draw, operands):
    return f"({draw(BOOLS)} ? {draw(operands)} : {draw(operands)})"


@st.composite
def called(draw, target, name, *arguments):
    return f"{draw(target)}.{name}({', '.join(draw(argument) for argument in arguments)})"


@st.composite
def folded(draw, lists, macro, element):
    """A macro over a list, its body a comparison that uses the element."""
    body = f"(x {draw(st.sampled_from(['<', '<=', '==', '!=', '>', '>=']))} {draw(element)})"
    if draw(st.booleans()):
        body = f"({body} {draw(st.sampled_from(['&&', '||']))} {draw(BOOLS)})"
    return f"{draw(lists)}.{macro}(x, {body})"


def listed(elements):
    """A list literal; its elements must not fail, since cel-python keeps what fails as an element."""
    return st.lists(elements, max_size=3).map(lambda parts: f"[{', '.join(parts)}]")


NUMBERS = st.sampled_from([*map(str, range(10)), "100", "9223372036854775807", f"{A}.index", f"{A}.large", f"{A}.nope"])
WORDS = st.sampled_from(["a", "b", "NVIDIA", "H1", "", "ü", "100", " ", "😀"]).map(json.dumps) | st.sampled_from(
    [f"{A}.model", f"{A}.empty", "device.driver", f"{A}.nope"]
)
PATTERNS = st.sampled_from(['"a"', '"[A-Z]+"', '"^N.*[0-9]$"', '"(a|b)*"', '"^$"'])
SAFE_NUMBERS = st.sampled_from([*map(str, range(10)), f"{A}.index"])
SAFE_INTS = SAFE_NUMBERS | binary(["+", "-", "*"], SAFE_NUMBERS) | binary(["/", "%"], st.sampled_from("123456789"))
SAFE_WORDS = WORDS.filter(lambda text: "nope" not in text)
FLAGS = st.sampled_from(["true", "false", f"{A}.ready", f"{A}.broken", f"{A}.nope", "[true][3]"])
PRESENCE = st.sampled_from([f"has({A}.{name})" for name in ("index", "nope", "model")])

INTS = st.deferred(
    lambda: (
        NUMBERS
        | binary(["+", "-", "*"], INTS)
        | binary(["/", "%"], NUMBERS)
        | st.builds("size({})".format, STRINGS | INT_LISTS)
        | called(STRINGS | INT_LISTS, "size")
        | chosen(INTS)
        | st.builds("{}[{}]".format, INT_LISTS, st.sampled_from("012"))
        | st.builds('{{"a": {}, "b": {}}}[{}]'.format, SAFE_INTS, SAFE_INTS, st.sampled_from(['"a"', '"b"', '"c"']))
    )
)
STRINGS = st.deferred(
    lambda: (
        WORDS
        | binary(["+"], STRINGS).map("string({})".format)
        | chosen(STRINGS)
        | st.builds("{}[0]".format, listed(SAFE_WORDS))
    )
)
INT_LISTS = st.deferred(
    lambda: (
        listed(SAFE_INTS)
        | binary(["+"], INT_LISTS)
        | st.builds("{}.filter(x, x {} {})".format, INT_LISTS, st.sampled_from(["<", "==", ">="]), SAFE_NUMBERS)
        | st.builds("{}.map(x, x {} {})".format, INT_LISTS, st.sampled_from("+-*"), SAFE_NUMBERS)
    )
)
COMPARISONS = st.deferred(
    lambda: (
        binary(["==", "!=", "<", "<=", ">", ">="], INTS)
        | binary(["==", "!=", "<", "<=", ">", ">="], STRINGS)
        | binary(["==", "!="], INT_LISTS)
    )
)
BOOLS = st.deferred(
    lambda: (
        FLAGS
        | PRESENCE
        | COMPARISONS
        | binary(["&&", "||"], BOOLS)
        | BOOLS.map("!{}".format)
        | chosen(BOOLS)
        | st.builds("({} in {})".format, INTS, INT_LISTS.filter("[]".__ne__))
        | st.builds('({} in {{"a": 1, "NVIDIA": 2}})'.format, STRINGS)
        | st.sampled_from(["contains", "startsWith", "endsWith"]).flatmap(lambda name: called(STRINGS, name, STRINGS))
        | called(STRINGS, "matches", PATTERNS)
        | st.sampled_from(["all", "exists", "exists_one"]).flatmap(lambda macro: folded(INT_LISTS, macro, NUMBERS))
    )
)


def test_oracle_is_right_where_it_is_asked(cel_python):
    assert [cel_python(text) for text in ("1 + 1 == 2", f"{A}.nope == 1", f"{A}.nope == 1 || true")] == [
        True,
        FAILS,
        True,
    ]


@quick
@given(text=BOOLS)
def test_verdict_is_that_of_cel_python(cel_python, text):
    try:
        verdict = ours(text)
    except CelCompileError as refused:
        assume(False)
        raise AssertionError from refused
    expected = cel_python(text)
    assume(expected != NO_ANSWER)
    assert verdict == expected
