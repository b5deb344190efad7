"""Node requirements: reading, printing, evaluating, and conclusions from several of them."""

import pytest

from policies.kubernetes.selectors import ALWAYS, Conjunction, NodeRequirement, both, can_hold

NEVER = ()


def requirement(key, operator, *values):
    return NodeRequirement(key, operator, values)


A5 = requirement("a", "In", "5")
A7 = requirement("a", "In", "7")
B = requirement("b", "Exists")
C = requirement("c", "Exists")


@pytest.mark.parametrize(
    "expression",
    [
        {"key": "a", "operator": "In", "values": ["x", "y"]},
        {"key": "a", "operator": "NotIn", "values": [""]},
        {"key": "a", "operator": "Exists"},
        {"key": "a", "operator": "DoesNotExist"},
        {"key": "a", "operator": "Gt", "values": ["-5"]},
        {"key": "a", "operator": "Lt", "values": ["9223372036854775807"]},
    ],
    ids=lambda expression: expression["operator"],
)
def test_expression_is_read_and_written_as_it_was(expression):
    assert NodeRequirement.read(expression).expression() == expression


@pytest.mark.parametrize("values", [None, []], ids=["null", "empty"])
def test_values_that_are_not_there_are_not_written(values):
    read = NodeRequirement.read({"key": "a", "operator": "Exists", "values": values})
    assert read.expression() == {"key": "a", "operator": "Exists"}


@pytest.mark.parametrize(
    ("operator", "values"),
    [
        ("In", []),
        ("In", None),
        ("NotIn", []),
        ("Exists", ["x"]),
        ("DoesNotExist", [""]),
        ("Gt", []),
        ("Gt", ["1", "2"]),
        ("Gt", ["x"]),
        ("Lt", ["1.5"]),
        ("Lt", ["9223372036854775808"]),
        ("Lt", [""]),
        ("Bogus", ["x"]),
        ("in", ["x"]),
        ("", ["x"]),
        (None, ["x"]),
    ],
)
def test_malformed_expression_is_no_requirement(operator, values):
    assert NodeRequirement.read({"key": "a", "operator": operator, "values": values}) is None


def test_expression_without_operator_is_no_requirement():
    assert NodeRequirement.read({"key": "a", "values": ["x"]}) is None


def test_malformed_requirement_cannot_be_made():
    with pytest.raises(ValueError, match=r"a In \[\] is not a requirement on a node: In does not take these values"):
        NodeRequirement("a", "In", ())


@pytest.mark.parametrize(
    ("item", "text"),
    [
        (requirement("nvidia.com/gpu.product", "In", "Tesla-T4"), "nvidia.com/gpu.product In [Tesla-T4]"),
        (requirement("a", "NotIn", *"abcde"), "a NotIn [a, b, c, d, e]"),
        (requirement("a", "In", *"abcdefg"), "a In [a, b, c, d, e, and 2 more]"),
        (requirement("a", "Exists"), "a Exists"),
        (requirement("a", "Gt", "8"), "a Gt 8"),
        (requirement("a", "In", "x\ny"), "a In [x y]"),
    ],
)
def test_requirement_prints_on_one_line(item, text):
    assert str(item) == text


@pytest.mark.parametrize(
    ("item", "holds"),
    [
        (requirement("a", "In", "5", "6"), True),
        (requirement("a", "In", "05"), False),
        (requirement("a", "NotIn", "5"), False),
        (requirement("a", "NotIn", "6"), True),
        (requirement("missing", "NotIn", "5"), True),
        (requirement("missing", "In", ""), False),
        (requirement("a", "Exists"), True),
        (requirement("missing", "Exists"), False),
        (requirement("a", "DoesNotExist"), False),
        (requirement("missing", "DoesNotExist"), True),
        (requirement("a", "Gt", "4"), True),
        (requirement("a", "Gt", "5"), False),
        (requirement("a", "Lt", "06"), True),
        (requirement("text", "Lt", "6"), False),
        (requirement("missing", "Lt", "6"), False),
    ],
    ids=str,
)
def test_requirement_holds_where_kubernetes_says_so(item, holds):
    assert item.holds({"a": "5", "text": "x"}) is holds


@pytest.mark.parametrize(
    "requirements",
    [
        [],
        [A5, requirement("b", "In", "7")],
        [A5, requirement("a", "In", "5", "7")],
        [A5, requirement("a", "Gt", "4"), requirement("a", "Lt", "6")],
        [requirement("a", "Gt", "4"), requirement("a", "Lt", "6")],
        [requirement("a", "Gt", "4"), requirement("a", "Lt", "6"), requirement("a", "NotIn", "5")],
        [requirement("a", "NotIn", "5"), requirement("a", "DoesNotExist")],
        [requirement("a", "NotIn", "5"), requirement("a", "Exists")],
    ],
)
def test_requirements_that_some_node_meets_can_hold(requirements):
    assert can_hold(requirements)


@pytest.mark.parametrize(
    "requirements",
    [
        [A5, A7],
        [A5, requirement("a", "NotIn", "5", "7")],
        [A5, requirement("a", "DoesNotExist")],
        [requirement("a", "Exists"), requirement("a", "DoesNotExist")],
        [requirement("a", "Gt", "4"), requirement("a", "DoesNotExist")],
        [requirement("a", "Gt", "4"), requirement("a", "Lt", "5")],
        [requirement("a", "Gt", "9223372036854775807")],
        [requirement("a", "Lt", "-9223372036854775808")],
        [A5, requirement("a", "Gt", "5")],
        [requirement("a", "In", "x"), requirement("a", "Lt", "5")],
        [requirement("a", "In", "5", "6"), requirement("a", "In", "6", "7"), requirement("a", "NotIn", "6")],
        [B, A5, C, A7],
    ],
)
def test_requirements_that_exclude_each_other_cannot_hold(requirements):
    assert not can_hold(requirements)


@pytest.mark.parametrize(
    ("item", "by"),
    [
        (A5, [A5]),
        (requirement("a", "In", "5", "7"), [A5]),
        (A5, [requirement("a", "In", "5", "7"), requirement("a", "Lt", "6")]),
        (requirement("a", "NotIn", "7"), [A5]),
        (requirement("a", "NotIn", "7"), [requirement("a", "NotIn", "7", "8")]),
        (requirement("a", "NotIn", "7"), [requirement("a", "Lt", "7")]),
        (requirement("a", "NotIn", "x"), [requirement("a", "Lt", "7")]),
        (requirement("a", "NotIn", "x"), [requirement("a", "DoesNotExist")]),
        (requirement("a", "DoesNotExist"), [requirement("a", "DoesNotExist")]),
        (requirement("a", "Exists"), [requirement("a", "Gt", "7")]),
        (requirement("a", "Exists"), [A5]),
        (requirement("a", "Gt", "4"), [A5]),
        (requirement("a", "Gt", "4"), [requirement("a", "Gt", "5")]),
        (requirement("a", "Lt", "6"), [requirement("a", "Lt", "6"), requirement("a", "Exists")]),
        (C, [A5, A7]),
    ],
)
def test_implied_by_requirements_that_leave_nothing_else(item, by):
    assert Conjunction(by).implies(item)


@pytest.mark.parametrize(
    ("item", "by"),
    [
        (A5, []),
        (requirement("a", "NotIn", "5"), []),
        (A5, [requirement("b", "In", "5")]),
        (A5, [requirement("a", "In", "5", "7")]),
        (A5, [requirement("a", "Gt", "4"), requirement("a", "Lt", "6")]),
        (requirement("a", "NotIn", "7"), [requirement("a", "Exists")]),
        (requirement("a", "NotIn", "7", "8"), [requirement("a", "NotIn", "7")]),
        (requirement("a", "Exists"), [requirement("a", "NotIn", "7")]),
        (requirement("a", "DoesNotExist"), [requirement("a", "NotIn", "7")]),
        (requirement("a", "Gt", "5"), [requirement("a", "Gt", "4")]),
        (requirement("a", "Gt", "5"), [requirement("a", "Exists")]),
        (requirement("a", "Gt", "4"), [requirement("a", "In", "5", "x")]),
    ],
)
def test_not_implied_while_something_else_is_left(item, by):
    assert not Conjunction(by).implies(item)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (ALWAYS, ALWAYS, ALWAYS),
        (ALWAYS, NEVER, NEVER),
        (((A5,),), ALWAYS, ((A5,),)),
        (((A5,),), ((B,),), ((A5, B),)),
        (((A5,), (A7,)), ((B,), (C,)), ((A5, B), (A5, C), (A7, B), (A7, C))),
        (((A5, B),), ((B, A5),), ((A5, B),)),
        (((A5,), (A7,)), ((A5,), (B,)), ((A5,), (A7, B))),
        (((A5,),), ((A7,),), NEVER),
        (((A5, B), (B,)), ALWAYS, ((B,),)),
        (((A5, A7), (B,)), ALWAYS, ((B,),)),
        (((A5,), ()), ((B,),), ((B,),)),
    ],
)
def test_both_distributes_and_leaves_out_what_adds_nothing(first, second, expected):
    assert both(first, second) == expected
