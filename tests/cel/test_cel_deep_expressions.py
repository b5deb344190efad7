"""Expressions that grow without bound or are nested deeply."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from policies.cel import CelDevice, CelRuntimeError, compile_selector
from tests.cel.costs import actual_cost

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
    text = chained(200, "[1]", "V + V", "V.size() > 0")
    with ThreadPoolExecutor(4) as pool:
        outcomes = list(pool.map(outcome_of, [text] * 8))

    assert outcomes == [True] * 8


def nested(binds, depth, before, after):
    """A chain of `cel.bind` in which each value nests the one before."""
    return chained(binds, "[1]", f"{before * depth}V{after * depth}", "V == [1]")


DEEPEST = [
    nested(16, 115, "[", "][0]"),
    nested(45, 40, "[", "][0]"),
    nested(12, 60, "{1: [", "]}[1][0]"),
    nested(12, 45, "[1].map(x, ", ")[0]"),
]
"""Some 10 KiB each; the chain of the first needs 8,000 frames."""


@pytest.mark.parametrize("text", DEEPEST, ids=["lists", "more binds", "maps", "loops"])
def test_deepest_chains_change_no_recursion_limit(text, monkeypatch):
    """A higher limit holds for all threads: json.loads of many brackets overflowed C's stack then, and ended the process."""
    limits = set()
    monkeypatch.setattr(sys, "setrecursionlimit", limits.add)

    assert outcome_of(text) is True
    assert not limits


@pytest.mark.parametrize("text", DEEPEST, ids=["lists", "more binds", "maps", "loops"])
def test_deepest_chains_need_threads_with_small_stacks_only(text):
    before = threading.stack_size(256 * 1024)
    try:
        assert outcome_of(text + " ") is True
    finally:
        threading.stack_size(before)


def test_cost_is_the_same_if_several_threads_evaluate():
    selector = compile_selector(chained(30, "[1]", "(V + [1]).slice(0, 1)", "V == [1]"))
    cost = actual_cost(selector, DEVICE)

    def below(frames):
        return below(frames - 1) if frames else actual_cost(selector, DEVICE)

    assert cost > 100
    assert below(sys.getrecursionlimit() - len(_frames()) - 45) == cost


def test_errors_pass_through_the_threads_of_a_chain():
    text = chained(150, "[1 / int(device.allowMultipleAllocations ? 1 : 0)]", "V + V", "V.size() > 0")
    assert outcome_of(text) == "division by zero"
