"""Expressions that try to exhaust time or memory: each gets an answer at a known cost.

Tests assert counted work, never time; an endless evaluation meets the time limit of pytest.
"""

from __future__ import annotations

import sys
import threading

import pytest

from policies.cel import CelCompileError, CelDevice, CelRuntimeError, compile_selector, errors
from policies.cel.interpreter.stack import COST_LIMIT
from policies.kubernetes.resourceslices import LONGEST_SELECTOR
from tests.cel.costs import actual_cost

DEVICE = CelDevice.read({"driver": "d", "attributes": {"s": {"string": "x" * 64}, "ints": {"ints": [1] * 64}}})
LIMIT = "operation cancelled: actual cost limit exceeded"
REFUSED = "refused"
LARGEST_CHARGE = 1_000_000
"""What one call may add to a cost that has not reached its limit yet."""


def chained(times, first, step, last):
    """`cel.bind` so many times, each value made of the one before it; V stands for that."""
    text = last.replace("V", f"v{times}")
    for number in range(times, 0, -1):
        text = f"cel.bind(v{number}, {step.replace('V', f'v{number - 1}')}, {text})"
    return f"cel.bind(v0, {first}, {text})"


def doubled(last, first="[1]"):
    """Something about a list of 2**100 elements."""
    return chained(100, first, "V + V", last)


def outcome_of(text):
    try:
        return compile_selector(text).matches(DEVICE)
    except CelCompileError:
        return REFUSED
    except CelRuntimeError as error:
        return error.message


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (doubled("V.slice(0, 2).size() == 2"), True),
        (doubled("V[5] == 1 && V.first().value() == 1 && V.last().value() == 1"), True),
        (doubled("cel.bind(grown, [], (grown + V).size() > 1)"), LIMIT),
        (doubled("V.reverse().size() == 1"), LIMIT),
        (doubled("V.distinct().size() == 1"), LIMIT),
        (doubled("V.sort().size() == 1"), LIMIT),
        (doubled("V.sortBy(x, -x).size() == 1"), LIMIT),
        (doubled("[V, V].flatten().size() == 1"), LIMIT),
        (doubled("V.sum() == 1"), LIMIT),
        (doubled("V.max() == 1"), LIMIT),
        (doubled("V.isSorted()"), LIMIT),
        (doubled("V.indexOf(1) == 0"), LIMIT),
        (doubled("V.lastIndexOf(1) == 0"), LIMIT),
        (doubled("sets.contains(V, V)"), LIMIT),
        (doubled("sets.intersects(V, V)"), LIMIT),
        (doubled("sets.equivalent(V, V)"), LIMIT),
        (doubled("V in [V]"), LIMIT),
        (doubled("{V: V}.size() == 1"), True),
        (doubled('"%s".format([V]) == ""'), LIMIT),
        (doubled('"%s%d".format(V) == ""'), False),
        (doubled("V.join().size() == 1", '["a"]'), LIMIT),
        (doubled("optional.unwrap(V).size() == 1", "[optional.of(1)]"), LIMIT),
        (doubled("dyn(V).includes(2)"), "'includes' function cannot be applied to lists longer than 48 values"),
        ("lists.range(9223372036854775807).size() == 1", LIMIT),
        ("lists.range(2000).distinct().size() == 1", LIMIT),
        ("lists.range(20000).sortBy(x, -x).size() == 1", LIMIT),
        ("sets.equivalent(lists.range(5000), lists.range(5000))", LIMIT),
    ],
    ids=[
        *("slice", "index", "grow", "reverse", "distinct", "sort", "sortBy", "flatten", "sum", "max", "isSorted"),
        *("indexOf", "lastIndexOf", "contains", "intersects", "equivalent", "in", "key", "format", "format-arguments"),
        *("join", "unwrap", "includes", "range", "range-distinct", "range-sortBy", "range-equivalent"),
    ],
)
def test_giant_lists_are_not_walked_through(text, outcome):
    assert outcome_of(text) == outcome


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        (chained(40, '"ab"', 'V.replace("", V)', "V.size() > 0"), LIMIT),
        (chained(40, '"ab"', 'V.replace("a", "aa")', "V.size() > 0"), LIMIT),
        (chained(30, '"ab"', "[V, V].join(V)", "V.size() > 0"), LIMIT),
        (chained(30, '"%s"', '"%s%s".format([V, V])', 'V == ""'), LIMIT),
        (chained(60, 'b"ab"', "V + V", 'string(V) == ""'), LIMIT),
        (chained(60, 'dyn(b"ab")', "V + V", "V == V"), LIMIT),
        (chained(60, '{"a": 1}', '{"a": V, "b": V}', "V == V"), True),
        (chained(60, "dyn(optional.of(1))", "dyn(optional.of(V))", "V == V"), True),
        ('"%.1000000f".format([1.5]) == ""', False),
        ('"%.60000e".format([1e308]).size() == 1', False),
        ('"%f".format([1e308]).size() == 1', False),
        ("optional.of(1)" + ".optMap(x, x)" * 30 + ".hasValue()", REFUSED),
        ("optional.of(1)" + ".optFlatMap(x, optional.of(x))" * 30 + ".hasValue()", REFUSED),
    ],
    ids=[
        *("replace-nothing", "replace", "join", "format", "bytes", "bytes-dyn", "maps", "optionals", "digits"),
        *("exponent-digits", "whole-digits", "optMap", "optFlatMap"),
    ],
)
def test_what_explodes_is_stopped(text, outcome):
    assert outcome_of(text) == outcome


@pytest.mark.parametrize(
    ("text", "outcome"),
    [
        ('"a".matches("((a{1000}){1000}){1000}")', REFUSED),
        ('device.driver.matches("(((((a{9}){9}){9}){9}){9}){9}")', REFUSED),
        (
            'device.driver.matches(device.driver + "(a{1000}){1000}")',
            "error parsing regexp: invalid repeat count: `{1000}`",
        ),
        (f'"{"a" * 4000}".matches("{"(a*)*" * 500}b")', False),
        (f'"{"a" * 2000}".findAll(".*a|.").size() == 1', True),
        (f"{'9' * 9000} == 1", REFUSED),
        (f"0x{'f' * 9000} == 1", REFUSED),
        (f"1e{'9' * 9000} == 1.0", REFUSED),
        (f'int("{"9" * 9000}") == 1', REFUSED),
        (f'int(device.driver + "{"9" * 9000}") == 1', "type conversion error from 'string' to 'int'"),
        (f'double("1e{"9" * 9000}") == 1.0', REFUSED),
        (f'!isQuantity("{"9" * 9000}")', False),
        ('quantity("1e2147483647").isInteger() || true', True),
        ('quantity("1e-2147483648").isInteger() || true', True),
        (chained(60, 'quantity("1e100")', "V.add(V)", "V.isInteger()"), False),
        (f'semver("{"9" * 9000}.0.0").major() == 1 || true', True),
        (f'isIP("{":" * 9000}")', False),
        (f'isCIDR("10.0.0.0/{"9" * 9000}")', False),
        (f'url("https://a/?{"a=b&" * 2000}").getQuery().size() == 1', True),
        (f'format.dns1123Subdomain().validate("{"a." * 4000}").hasValue()', True),
        (f'duration("{"1h" * 4000}") == duration("1s")', REFUSED),
        (f'timestamp("2020-01-01T00:00:00.{"9" * 9000}Z") == timestamp(0)', REFUSED),
        ('timestamp(253402300799) + duration("2562047h") == timestamp(0)', "timestamp overflow"),
        ("duration(9223372036854775807) == duration(0)", REFUSED),
        (f'timestamp(0).getHours("{"A/" * 4000}") == 0 || true', True),
        ("-9223372036854775808 / -1 == 1", "integer overflow"),
        (f'"{"😀" * 2000}".split("").reverse().join().size() == 2000', True),
    ],
    ids=[
        *(
            "regex-thrice",
            "regex-nested",
            "regex-computed",
            "regex-stars",
            "regex-each",
            "int",
            "hexadecimal",
            "exponent",
        ),
        *("int-of", "int-of-computed", "double-of", "quantity", "quantity-large", "quantity-small", "quantity-sum"),
        *("semver", "ip", "cidr", "query", "subdomain", "duration", "fraction", "timestamp-sum", "duration-of", "zone"),
        *("division", "beyond-16-bits"),
    ],
)
def test_extremes_are_answered(text, outcome):
    assert outcome_of(text) == outcome


PIECES = [
    *("[", "(", "{", "]", "!", "-", ".", "?", ":", ",", "a.", "a[", "a?b:", "a(", "a{", "has(", "cel.bind(a,1,", "1."),
    *("[1].map(x,", "[1].all(x,", "a.?b", "[?a", "//", "/", "\\", '"', "'''", "`", "\n", "é", "😀", "\x00", "\ud800"),
    *("true&&", "true||", "1+", "a in ", "a==", "0x", "1e", "b'", "r'", "%", "@", "if"),
]


@pytest.mark.parametrize("piece", PIECES, ids=ascii)
@pytest.mark.parametrize("end", ["", "true"], ids=["open", "closed"])
def test_ten_kibibytes_of_anything_are_answered(piece, end):
    size = len(piece.encode("utf-8", "surrogatepass"))
    text = piece * ((LONGEST_SELECTOR - len(end)) // size) + end

    assert isinstance(outcome_of(text), bool | str)


@pytest.mark.parametrize(
    "text",
    [
        doubled("V == V"),
        doubled("V.map(x, x).size() == 1"),
        chained(40, '"aa"', 'V.replace("a", "aaaa")', "V == V"),
        "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10].all(a, " * 7 + "true" + ")" * 7,
        'lists.range(400).all(x, device.driver.matches("a{" + string(x) + "}b*") || true)',
        "lists.range(3000).transformMapEntry(k, v, {string(v): v}).size() == 3000",
    ],
    ids=["equality", "map", "replace", "loops", "regexes", "entries"],
)
def test_cost_and_work_stay_within_their_limits(text):
    cost = actual_cost(compile_selector(text), DEVICE)

    assert cost <= COST_LIMIT + LARGEST_CHARGE
    assert 0 <= errors._METER.left <= errors.STEP_LIMIT


DEEP = [
    "(" * 249 + "true" + ")" * 249,
    "[" * 249 + "]" * 249 + " == " + "[" * 249 + "]" * 249,
    "dyn(" * 200 + "true" + ")" * 200,
    '{"a": dyn(1)}' + ".a" * 240 + " == 1 || true",
    "(true ? " * 120 + "true" + " : false)" * 120,
    "[1].all(x, " * 120 + "true" + ")" * 120,
    "cel.bind(a, 1, " * 120 + "true" + ")" * 120,
    "!" * 10_000 + "true",
    " && ".join(["true"] * 1200),
    "[" * 5000,
]
DEEP_IDS = ["parentheses", "lists", "dyn", "selects", "ternaries", "loops", "binds", "negations", "and", "too-deep"]


@pytest.mark.parametrize("text", DEEP, ids=DEEP_IDS)
def test_small_stack_is_enough(text):
    """Of a thread with 256 KiB, which is a thirty-second of what a main thread has."""
    found = []
    before = threading.stack_size(256 * 1024)
    try:
        thread = threading.Thread(target=lambda: found.append(outcome_of(f"{text} ")))
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()

    assert found == [REFUSED if text == DEEP[-1] else True]


@pytest.mark.parametrize("text", DEEP, ids=DEEP_IDS)
def test_compiling_works_deep_down_in_the_stack(text):
    def below(frames):
        return below(frames - 1) if frames else outcome_of(f"{text}  ")

    assert below(sys.getrecursionlimit() - _depth() - 150) == (REFUSED if text == DEEP[-1] else True)


def _depth():
    frame, depth = sys._getframe(), 0
    while frame is not None:
        frame, depth = frame.f_back, depth + 1
    return depth
