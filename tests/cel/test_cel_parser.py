import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.cel.errors import CelCompileError
from policies.cel.parser import parse
from policies.cel.parser.parts import MAX_DEPTH
from policies.cel.syntax import Call, Comprehension, Entry, ListLiteral, MapLiteral, Select, StructLiteral

KIBIBYTES_10 = 10_240


def test_grammar_of_cel_python_is_read_without_importing_it():
    script = (
        "import sys; from policies.cel.parser import parse; parse('1 + 1'); print({'celpy', 'lark'} & {*sys.modules})"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "{'lark'}\n"


def issues(text):
    with pytest.raises(CelCompileError) as refused:
        parse(text)
    return [(issue.line, issue.column, issue.message) for issue in refused.value.issues]


def outcome(text):
    """Empty, or the first message."""
    try:
        parse(text)
    except CelCompileError as error:
        return error.message
    return ""


def children(node):
    match node:
        case Select():
            return [node.operand]
        case Call():
            return [*node.arguments, *([node.target] if node.target else [])]
        case ListLiteral():
            return list(node.elements)
        case MapLiteral():
            return list(node.entries)
        case StructLiteral():
            return list(node.fields)
        case Entry():
            return [node.value] if isinstance(node.key, str) else [node.key, node.value]
        case Comprehension():
            return [node.range, node.initial, node.condition, node.step, node.result]
    return []


def depth(root):
    deepest, pending = 0, [(root, 1)]
    while pending:
        node, level = pending.pop()
        deepest = max(deepest, level)
        pending += [(child, level + (not isinstance(node, Entry))) for child in children(node)]
    return deepest


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a + b * c - d", "_-_(_+_(a, _*_(b, c)), d)"),
        ("a / b % c", "_%_(_/_(a, b), c)"),
        ("a < b == c", "_==_(_<_(a, b), c)"),
        ("a <= b", "_<=_(a, b)"),
        ("a >= b != c", "_!=_(_>=_(a, b), c)"),
        ("a > b", "_>_(a, b)"),
        ("a in b", "@in(a, b)"),
        ("a || b && c", "_||_(a, _&&_(b, c))"),
        ("(a || b) && c", "_&&_(_||_(a, b), c)"),
        ("a ? b : c ? d : e", "_?_:_(a, b, _?_:_(c, d, e))"),
        ("a || b ? c && d : e", "_?_:_(_||_(a, b), _&&_(c, d), e)"),
        ("!a.b", "!_(a.b)"),
        ("-a[0]", "-_(_[_](a, 0))"),
        ("!!a", "a"),
        ("!!!a", "!_(a)"),
        ("--a", "a"),
        ("--1", "1"),
        ("- - -1", "-_(1)"),
        ("!-1", "!_(-1)"),
        ("-1.0.a", "-1.0.a"),
        ("-1u", "-_(1)"),
        ("1-1", "_-_(1, 1)"),
        ("a -1", "_-_(a, 1)"),
        ("1--1", "_-_(1, -1)"),
        ("a.b.c", "a.b.c"),
        (".a.b", ".a.b"),
        ("a.?b", "_?._(a, 'b')"),
        ("a . ? b", "_?._(a, 'b')"),
        ("a[?b]", "_[?_](a, b)"),
        ("a[b][c]", "_[_](_[_](a, b), c)"),
        ("a.b(c, d).e", "a.b(c, d).e"),
        ("f(a)", "f(a)"),
        (".f()", ".f()"),
        ("[]", "[]"),
        ("[a, ?b, c,]", "[a, b, c]?[1]"),
        ("[,]", "[]"),
        ("{}", "{}"),
        ("{,}", "{}"),
        ("{a: b, ?c: d,}", "{a: b, ?c: d}"),
        ("A{}", "A{}"),
        ("a.b.C{f: 1, ?g: 2,}", "a.b.C{f: 1, ?g: 2}"),
        (".A{,}.f", ".A{}.f"),
        ("if.A{f: 1}", "if.A{f: 1}"),
        ("a.if.package()", "a.if.package()"),
        ("a // comment\n+ b", "_+_(a, b)"),
        ("\ta\r\n\f+ b // end", "_+_(a, b)"),
        ("1in[1]", "@in(1, [1])"),
        ("inner in in_", "@in(inner, in_)"),
        ("trueish", "trueish"),
    ],
    ids=lambda text: text,
)
def test_expression_is_read_as_cel_go_does(text, tree, tree_of):
    assert tree_of(text) == tree


@pytest.mark.parametrize(
    ("text", "tree"),
    [
        ("a && b && c", "_&&_(_&&_(a, b), c)"),
        ("a || b || c || d", "_||_(_||_(a, b), _||_(c, d))"),
        ("a && b && c && d && e", "_&&_(_&&_(_&&_(a, b), c), _&&_(d, e))"),
    ],
    ids=lambda text: text,
)
def test_chain_of_conditions_becomes_a_balanced_tree(text, tree, tree_of):
    assert tree_of(text) == tree


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("ab + cd", 3),
        ("ab && cd || ef", 9),
        ("ab ? c : d", 3),
        ("!a", 0),
        ("--- a", 0),
        ("ab.c", 2),
        ("ab.?c", 2),
        ("ab[c]", 2),
        ("ab.c(d)", 4),
        ("abc(d)", 3),
        (" [a]", 1),
        (" {a: b}", 1),
        ("a.B{c: d}", 3),
        (".ab", 1),
        ("(('é'))", 2),
        ("(a + b)", 3),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_node_is_where_cel_go_says(text, offset):
    assert parse(text).offset == offset


def test_entry_is_at_its_colon():
    assert [entry.offset for entry in parse("{'a' : 1, b: 2}").entries] == [5, 11]


def test_name_of_an_optional_field_is_at_its_own_place():
    assert parse("a.?bc").arguments[1].offset == 3


def test_offsets_count_code_points():
    assert parse("'é😀' + a").offset == 5


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if", [(1, 1, "reserved identifier: if")]),
        (".namespace", [(1, 1, "reserved identifier: namespace")]),
        ("as ==\n package", [(1, 1, "reserved identifier: as"), (2, 2, "reserved identifier: package")]),
        ("while(9223372036854775808)", [(1, 1, "reserved identifier: while")]),
        ("a.`b`", [(1, 3, "unsupported syntax: '`'")]),
        ("a.?`b-c`.d", [(1, 4, "unsupported syntax: '`'")]),
        ("A{?`b`: 1}", [(1, 3, "unsupported syntax: '`'")]),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_name_that_cannot_be_used_is_refused(text, expected):
    assert issues(text) == expected


@pytest.mark.parametrize(
    ("text", "plain"),
    [("a.`b`", "a.b"), ("a.?`b`.c", "a.?b.c"), ("has(a.`b`)", "has(a.b)"), ("A{`b`: 1, c: 2}", "A{b: 1, c: 2}")],
)
def test_name_between_backticks_is_a_name_where_it_is_allowed(text, plain, tree_of):
    assert tree_of(text, escaped_names=True) == tree_of(plain)


def test_value_behind_a_name_between_backticks_is_looked_at_where_it_is_allowed():
    assert issues("A{`b`: if}") == [(1, 3, "unsupported syntax: '`'")]
    with pytest.raises(CelCompileError, match="reserved identifier: if"):
        parse("A{`b`: if}", escaped_names=True)


@pytest.mark.parametrize(
    ("family", "allowed"),
    [
        (lambda n: "(" * n + "1" + ")" * n, 249),
        (lambda n: "[" * n + "]" * n, 250),
        (lambda n: "{1:" * n + "1" + "}" * n, 249),
        (lambda n: "{" * n + "1" + ":1}" * n, 249),
        (lambda n: "f(" * n + "1" + ")" * n, 249),
        (lambda n: "a[" * n + "1" + "]" * n, 249),
        (lambda n: "A{f:" * n + "1" + "}" * n, 249),
        (lambda n: "!(" * n + "a" + ")" * n, 249),
        (lambda n: "a?b:" * n + "c", 249),
        (lambda n: "1+(" * n + "1" + ")" * n, 124),
        (lambda n: "1+1*(" * n + "1" + ")" * n, 83),
        (lambda n: "1==(" * n + "1" + ")" * n, 124),
    ],
    ids=[
        *("parentheses", "lists", "maps", "keys", "calls", "indices", "messages", "nots", "conditionals", "sums"),
        *("products in sums", "comparisons"),
    ],
)
def test_nesting_is_refused_where_cel_go_refuses_it(family, allowed):
    assert outcome(family(allowed)) == ""
    assert outcome(family(allowed + 1)) == "expression recursion limit exceeded: 250"


@pytest.mark.parametrize(
    "family",
    [
        lambda n: "a" + ".b" * n,
        lambda n: "a" + ".?b" * n,
        lambda n: "a" + "[0]" * n,
        lambda n: "a" + ".b()" * n,
        lambda n: "1" + "+1" * n,
        lambda n: "1" + "%1" * n,
        lambda n: "1" + "==1" * n,
    ],
    ids=["fields", "optional fields", "indices", "methods", "sums", "remainders", "comparisons"],
)
def test_chain_is_refused_where_cel_go_refuses_it(family):
    assert outcome(family(250)) == ""
    assert outcome(family(251)) == "max recursion depth exceeded"


@pytest.mark.parametrize("operator", ["&&", "||"])
def test_chain_of_thousands_of_conditions_is_shallow(operator):
    assert depth(parse(operator.join(["a"] * 3000))) == 13


def test_thousands_of_signs_become_one_or_none(tree_of):
    assert tree_of("!" * 9999 + "a") == "!_(a)"
    assert tree_of("-" * 10_000 + "1") == "1"


def test_too_deep_beginning_is_refused_before_its_missing_end():
    assert issues("(" * KIBIBYTES_10) == [(-1, 0, "expression recursion limit exceeded: 250")]


def test_mistake_before_the_depth_is_reported_too():
    assert issues("1 1 + " + "(" * 300) == [(1, 3, "Syntax error: mismatched input '1' expecting <EOF>")]


def test_tree_deeper_than_promised_is_refused():
    text = "[!" * 130 + "a" + "]" * 130
    assert outcome(text) == f"expression recursion limit exceeded: {MAX_DEPTH} levels, macros expanded"


def test_deepest_tree_is_as_deep_as_promised():
    assert depth(parse("[!" * 129 + "a.b" + "]" * 129)) == MAX_DEPTH


def test_very_long_text_is_refused_unread():
    assert outcome("a" * 100_001) == "expression code point size exceeds limit: size: 100001, limit 100000"


HOSTILE = (
    *("(", ")", "[", "]", "{", "}", "!", "-", "- ", "a.", "a?a:", "1+", "a&&", "?", ":", ",", "a,", "'", '"', "`", "@"),
    *(
        "'''",
        "\\",
        "'\\u1234'+",
        "'\\x4",
        "//\n",
        "-//\n",
        "0x",
        "9",
        "1e",
        ".5",
        "a in ",
        "a{b:",
        "a.`b`",
        "{1:",
        "\n",
    ),
    *(
        "a.optMap(a,a).",
        "a.optMap(a,",
        "[a.optMap(a,a)],",
        "[].sortBy(x,",
        "a.map(x,1,x)&&",
        "=",
        "é",
        "😀",
        "r'",
        "a ",
    ),
)


@pytest.mark.parametrize("piece", HOSTILE, ids=repr)
@pytest.mark.parametrize("prefix", ["", "[", "'"])
def test_hostile_text_is_read_or_refused_with_a_message_no_longer_than_it(piece, prefix):
    text = (prefix + piece * KIBIBYTES_10)[:KIBIBYTES_10]
    assert len(outcome(text)) < 2 * KIBIBYTES_10
    assert len(outcome(text + "a")) < 2 * KIBIBYTES_10


TOKENS = st.sampled_from(
    [
        *("a", "device", "cel", "if", "in", "true", "null", "1", "2u", "0x1F", "1.5", "'x'", "b'z'", r"r'\d'", "'\\n'"),
        *(
            "'\\q'",
            "(",
            ")",
            "[",
            "]",
            "{",
            "}",
            ".",
            ",",
            "-",
            "!",
            "?",
            ":",
            "+",
            "*",
            "/",
            "%",
            "==",
            "!=",
            "<",
            "<=",
        ),
        *("&&", "||", ".all(x,", ".map(x,", "has(", "cel.bind(x,", ".?b", "[?", "A{x:", "`", "@", "=", "'", '"', "//"),
        *("\n", " ", "9223372036854775808", ".optMap(x,", "é", "\ud800"),
    ]
)


@given(st.text() | st.lists(TOKENS, max_size=40).map("".join) | st.lists(TOKENS, max_size=40).map(" ".join))
def test_any_text_is_read_or_refused_with_a_place_in_it(text):
    try:
        root, found = parse(text), ()
    except CelCompileError as error:
        root, found = None, error.issues
    lines = text.split("\n")
    assert all(issue.line == -1 or issue.column - 1 <= len(lines[issue.line - 1]) for issue in found)
    assert root is None or depth(root) <= MAX_DEPTH
