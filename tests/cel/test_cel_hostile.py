"""Expressions that try to take all time, all memory or all of the stack."""

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from policies.dra.cel import CelDevice, CelRuntimeError, compile_selector

DEVICE = CelDevice.read({"driver": "d", "attributes": {"s": {"string": "abc"}}})
LIMIT = "operation cancelled: actual cost limit exceeded"


def chained(times, first, step, last):
    """`cel.bind` so many times, each value made of the one before it; V stands for that."""
    text = last.replace("V", f"v{times}")
    for number in range(times, 0, -1):
        text = f"cel.bind(v{number}, {step.replace('V', f'v{number - 1}')}, {text})"
    return f"cel.bind(v0, {first}, {text})"


def outcome_of(text):
    try:
        return compile_selector(text).matches(DEVICE)
    except CelRuntimeError as error:
        return error.message


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (chained(200, "[1]", "V + V", "V.size() > 0"), True),
        (chained(100, "[1]", "V + V", "V == V"), LIMIT),
        (chained(100, "[1]", "V + V", "2 in V"), LIMIT),
        (chained(100, "[1]", "V + V", "V.map(x, x).size() > 0"), LIMIT),
        (chained(100, "[1]", "V + V", "V.exists_one(x, false)"), "operation interrupted"),
        (chained(100, "[1]", "[V, V]", "V == V"), True),
        (chained(60, "[1]", "[V, V]", "V.flatten(100).size() == 1"), LIMIT),
        (chained(60, "[1]", "[V, V]", '"%s".format([V]) == ""'), LIMIT),
        (chained(100, '"a"', "V + V", "V == V"), LIMIT),
        (chained(100, 'dyn("a")', "V + V", "V == V"), LIMIT),
        (chained(40, '"aa"', 'V.replace("a", "aaaa")', "V == V"), LIMIT),
        ("lists.range(1000000000).size() == 1", LIMIT),
        ("lists.range(1000).all(x, lists.range(1000).all(y, true))", LIMIT),
    ],
    ids=[
        *("lists-size", "lists-equal", "lists-in", "lists-map", "lists-free-loop", "nested-equal", "nested-flatten"),
        *("nested-format", "strings", "strings-dyn", "strings-replace", "range", "loops"),
    ],
)
def test_growth_is_bounded(text, outcome):
    assert outcome_of(text) == outcome


@pytest.mark.parametrize(
    "text",
    [
        "(" * 249 + "true" + ")" * 249,
        "1" + "+1" * 249 + " > 0",
        "!(" * 248 + "true" + ")" * 248,
        "[" * 249 + "]" * 249 + " == " + "[" * 249 + "]" * 249,
        '{"a": dyn(1)}' + ".a" * 240 + " == 1 || true",
        "(true ? " * 120 + "true" + " : false)" * 120,
        "".join(f"[1].exists(x{number}, " for number in range(60)) + "true" + ")" * 60,
        " && ".join(["true"] * 1200),
        " || ".join(['device.attributes["d"].no'] * 300) + " || true",
    ],
    ids=["parentheses", "sums", "negations", "lists", "selects", "ternaries", "loops", "and", "or"],
)
def test_deep_and_long_expressions_evaluate(text):
    assert outcome_of(text) is True


def test_evaluation_works_deep_down_in_the_stack():
    selector = compile_selector('device.driver == "d" && ' + "!(!(" * 20 + 'device.driver != ""' + "))" * 20)
    assert selector.matches(DEVICE)

    def below(frames):
        return below(frames - 1) if frames else selector.matches(DEVICE)

    depth = len(_frames())
    assert below(sys.getrecursionlimit() - depth - 45) is True


def _frames():
    frames, frame = [], sys._getframe()
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def test_chains_that_exhaust_the_stack_are_evaluated_side_by_side():
    limit, text = sys.getrecursionlimit(), chained(200, "[1]", "V + V", "V.size() > 0")
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(outcome_of, [text] * 8))

    assert outcomes == [True] * 8
    assert sys.getrecursionlimit() == limit
