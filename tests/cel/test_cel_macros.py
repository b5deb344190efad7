import pytest

from policies.cel.errors import CelCompileError
from policies.cel.parser import parse
from policies.cel.parser.parts import MAX_NODES


def issues(text):
    with pytest.raises(CelCompileError) as refused:
        parse(text)
    return [(issue.line, issue.column, issue.message) for issue in refused.value.issues]


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("has(a.b.c)", "a.b.c~"),
        (
            "a.all(x, p)",
            "fold x in a: @result = True while @not_strictly_false(@result) do _&&_(@result, p) give @result",
        ),
        (
            "a.exists(x, p)",
            "fold x in a: @result = False while @not_strictly_false(!_(@result)) do _||_(@result, p) give @result",
        ),
        (
            "a.exists_one(x, p)",
            "fold x in a: @result = 0 while True do _?_:_(p, _+_(@result, 1), @result) give _==_(@result, 1)",
        ),
        ("a.map(x, t)", "fold x in a: @result = [] while True do _+_(@result, [t]) give @result"),
        (
            "a.map(x, p, t)",
            "fold x in a: @result = [] while True do _?_:_(p, _+_(@result, [t]), @result) give @result",
        ),
        (
            "a.filter(x, p)",
            "fold x in a: @result = [] while True do _?_:_(p, _+_(@result, [x]), @result) give @result",
        ),
        (
            "a.all(i, x, p)",
            "fold i, x in a: @result = True while @not_strictly_false(@result) do _&&_(@result, p) give @result",
        ),
        (
            "a.exists(i, x, p)",
            "fold i, x in a: @result = False while @not_strictly_false(!_(@result)) do _||_(@result, p) give @result",
        ),
        (
            "a.existsOne(i, x, p)",
            "fold i, x in a: @result = 0 while True do _?_:_(p, _+_(@result, 1), @result) give _==_(@result, 1)",
        ),
        (
            "a.exists_one(i, x, p)",
            "fold i, x in a: @result = 0 while True do _?_:_(p, _+_(@result, 1), @result) give _==_(@result, 1)",
        ),
        ("a.transformList(i, x, t)", "fold i, x in a: @result = [] while True do _+_(@result, [t]) give @result"),
        (
            "a.transformList(i, x, p, t)",
            "fold i, x in a: @result = [] while True do _?_:_(p, _+_(@result, [t]), @result) give @result",
        ),
        (
            "a.transformMap(k, v, t)",
            "fold k, v in a: @result = {} while True do cel.@mapInsert(@result, k, t) give @result",
        ),
        (
            "a.transformMap(k, v, p, t)",
            "fold k, v in a: @result = {} while True do _?_:_(p, cel.@mapInsert(@result, k, t), @result) give @result",
        ),
        (
            "a.transformMapEntry(k, v, t)",
            "fold k, v in a: @result = {} while True do cel.@mapInsert(@result, t) give @result",
        ),
        (
            "a.transformMapEntry(k, v, p, t)",
            "fold k, v in a: @result = {} while True do _?_:_(p, cel.@mapInsert(@result, t), @result) give @result",
        ),
        ("cel.bind(x, a, t)", "fold #unused in []: x = a while False do x give t"),
        (
            "a.optMap(x, t)",
            "_?_:_(a.hasValue(), optional.of(fold #unused in []: x = a.value() while False do x give t), optional.none())",
        ),
        (
            "a.optFlatMap(x, t)",
            "_?_:_(a.hasValue(), fold #unused in []: x = a.value() while False do x give t, optional.none())",
        ),
        (
            "a.sortBy(x, t)",
            (
                "fold #unused in []: @__sortBy_input__ = a while False do @__sortBy_input__ give "
                "@__sortBy_input__.@sortByAssociatedKeys("
                "fold x in @__sortBy_input__: @result = [] while True do _+_(@result, [t]) give @result)"
            ),
        ),
    ],
    ids=lambda text: text.split(" ")[0],
)
def test_macro_is_expanded_as_cel_go_does(text, tree, tree_of):
    assert tree_of(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("has(a, b)", "has(a, b)"),
        ("a.has(b.c)", "a.has(b.c)"),
        ("all(a, b)", "all(a, b)"),
        ("a.all(x)", "a.all(x)"),
        ("a.existsOne(x, p)", "a.existsOne(x, p)"),
        ("a.bind(x, 1, x)", "a.bind(x, 1, x)"),
        (".cel.bind(x, 1, x)", ".cel.bind(x, 1, x)"),
        ("cel.block([1], 2)", "cel.block([1], 2)"),
        ("a.map(x, p, t, u)", "a.map(x, p, t, u)"),
    ],
    ids=lambda text: text,
)
def test_call_that_is_no_macro_stays_a_call(text, tree, tree_of):
    assert tree_of(text) == tree


def test_bind_is_known_by_its_parenthesised_target_too(tree_of):
    assert tree_of("(cel).bind(x, 1, x)") == "fold #unused in []: x = 1 while False do x give x"


def test_what_a_macro_adds_is_at_its_parenthesis():
    expanded = parse("[1].exists(x, x > 0)")
    assert (expanded.offset, expanded.range.offset, expanded.initial.offset, expanded.result.offset) == (10, 0, 10, 10)
    assert (expanded.step.offset, expanded.step.arguments[1].offset) == (10, 16)


def test_filter_keeps_the_place_of_its_variable():
    assert parse("a.filter(x, true)").step.arguments[1].arguments[1].elements[0].offset == 9


def test_opt_map_copies_its_target():
    expanded = parse("f({1: [?a]}).optMap(x, x)")
    original, copied = expanded.arguments[0].target, expanded.arguments[1].arguments[0].initial.target
    assert original is not copied
    assert original.arguments[0].entries[0].value is not copied.arguments[0].entries[0].value
    assert (original.offset, copied.offset) == (1, 1)


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("has(a)", 5, "invalid argument to has() macro"),
        ("has(a[0])", 6, "invalid argument to has() macro"),
        ("has(a.?b)", 6, "invalid argument to has() macro"),
        ("a.all(x.y, true)", 8, "argument must be a simple name"),
        ("a.exists(1, true)", 10, "argument must be a simple name"),
        ("a.exists_one(f(), true)", 15, "argument must be a simple name"),
        ("a.map(1, true)", 7, "argument is not an identifier"),
        ("a.filter(1, true)", 10, "argument is not an identifier"),
        ("a.all(__result__, true)", 7, "iteration variable overwrites accumulator variable"),
        ("a.map(__result__, 1)", 7, "iteration variable overwrites accumulator variable"),
        ("a.all(x, x, true)", 10, "duplicate variable name: x"),
        ("a.all(x, __result__, true)", 10, "iteration variable overwrites accumulator variable"),
        ("a.transformMap(k, 1, k)", 19, "argument must be a simple name"),
        ("a.optMap(1, 2)", 10, "optMap() variable name must be a simple identifier"),
        ("a.optFlatMap(1, 2)", 14, "optFlatMap() variable name must be a simple identifier"),
        ("cel.bind(a.b, 1, 2)", 11, "cel.bind() variable names must be simple identifiers"),
        ("[1].sortBy(1, 2)", 12, "argument is not an identifier"),
        (
            "{}.sortBy(x, x)",
            1,
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_macro_with_wrong_arguments_is_refused(text, column, message):
    assert issues(text) == [(1, column, message)]


def test_accumulator_of_old_is_a_name_that_bind_may_use(tree_of):
    assert (
        tree_of("cel.bind(__result__, 1, 2)") == "fold #unused in []: __result__ = 1 while False do __result__ give 2"
    )


def test_wrong_arguments_are_reported_for_inner_and_outer_macros():
    assert issues("has([1].all(1, has(2)))") == [
        (1, 13, "argument must be a simple name"),
        (1, 13, "invalid argument to has() macro"),
        (1, 20, "invalid argument to has() macro"),
    ]


def test_opt_map_in_a_chain_is_refused_before_its_copies_fill_the_memory():
    assert issues("a" + ".optMap(x, x)" * 200) == [
        (-1, 0, f"expression size limit exceeded: {MAX_NODES} nodes, macros expanded")
    ]
