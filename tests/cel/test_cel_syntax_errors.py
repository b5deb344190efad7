import pytest

from policies.cel.errors import CelCompileError
from policies.cel.parser import parse

OPERAND = (
    "'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER"
)

FIRST_ARGUMENT = OPERAND.replace("'('", "'(', ')'")
INDEX = OPERAND.replace("'!'", "'!', '?'")


def issues(text):
    with pytest.raises(CelCompileError) as refused:
        parse(text)
    return [(issue.line, issue.column, issue.message.removeprefix("Syntax error: ")) for issue in refused.value.issues]


@pytest.mark.parametrize(
    ("text", "column", "message"),
    [
        ("1 +", 4, f"mismatched input '<EOF>' expecting {{{OPERAND}}}"),
        ("1 + )", 5, f"mismatched input ')' expecting {{{OPERAND}}}"),
        ("a && ", 6, f"mismatched input '<EOF>' expecting {{{OPERAND}}}"),
        ("   ", 4, f"mismatched input '<EOF>' expecting {{{OPERAND}}}"),
        ("// x", 5, f"mismatched input '<EOF>' expecting {{{OPERAND}}}"),
        ("a == == b", 6, f"extraneous input '==' expecting {{{OPERAND}}}"),
        ("f(a,)", 5, f"mismatched input ')' expecting {{{OPERAND}}}"),
        ("f(,a)", 3, f"extraneous input ',' expecting {{{FIRST_ARGUMENT}}}"),
        ("a[]", 3, f"mismatched input ']' expecting {{{INDEX}}}"),
        ("(1", 3, "missing ')' at '<EOF>'"),
        ("(1]", 3, "mismatched input ']' expecting ')'"),
        ("1)", 2, "extraneous input ')' expecting <EOF>"),
        ("a b", 3, "extraneous input 'b' expecting <EOF>"),
        ("a and b", 3, "mismatched input 'and' expecting <EOF>"),
        ("a, b", 2, "mismatched input ',' expecting <EOF>"),
        ("[1, 2", 6, "mismatched input '<EOF>' expecting {']', ','}"),
        ("[1,, 2]", 4, "mismatched input ',' expecting ']'"),
        ("[a b]", 4, "extraneous input 'b' expecting {']', ','}"),
        ("{1: 2", 6, "mismatched input '<EOF>' expecting {'}', ','}"),
        ("{1}", 3, "mismatched input '}' expecting ':'"),
        ("{a b}", 4, "missing ':' at 'b'"),
        ("f(a b)", 5, "extraneous input 'b' expecting ')'"),
        ("a[1", 4, "missing ']' at '<EOF>'"),
        ("a ? b", 6, "mismatched input '<EOF>' expecting ':'"),
        ("a ? b c", 7, "missing ':' at 'c'"),
        ("a ? b ? c : d : e", 7, "mismatched input '?' expecting ':'"),
        ("A{1: 1}", 3, "mismatched input '1' expecting {'}', ',', '?', IDENTIFIER, ESC_IDENTIFIER}"),
        ("A{a}", 4, "mismatched input '}' expecting ':'"),
        ("(a).b{}", 6, "mismatched input '{' expecting <EOF>"),
        ("f(){}", 4, "mismatched input '{' expecting <EOF>"),
        ("a.?", 4, "mismatched input '<EOF>' expecting {IDENTIFIER, ESC_IDENTIFIER}"),
        ("a.", 3, "no viable alternative at input '.'"),
        ("a..b", 3, "no viable alternative at input '..'"),
        ("a.5", 2, "extraneous input '.5' expecting <EOF>"),
        ("a.true", 3, "mismatched input 'true' expecting IDENTIFIER"),
        ("!-x", 3, "no viable alternative at input '-x'"),
        ("-!x", 2, "no viable alternative at input '-!'"),
        ("! ", 3, f"extraneous input '<EOF>' expecting {{{OPERAND}}}"),
        ("a === b", 5, "token recognition error at: '= '"),
    ],
    ids=lambda value: value if isinstance(value, str) and not value.startswith(("m", "e", "n", "t")) else "",
)
def test_mistake_is_reported_as_antlr_does(text, column, message):
    assert issues(text) == [(1, column, message)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "a = b",
            [(1, 3, "token recognition error at: '= '"), (1, 5, "extraneous input 'b' expecting <EOF>")],
        ),
        (
            "a &\nb",
            [(1, 3, "token recognition error at: '&\n'"), (2, 1, "extraneous input 'b' expecting <EOF>")],
        ),
        (
            "@",
            [
                (1, 1, "token recognition error at: '@'"),
                (1, 2, f"mismatched input '<EOF>' expecting {{{OPERAND}}}"),
            ],
        ),
        (
            "true && in",
            [
                (1, 9, f"mismatched input 'in' expecting {{{OPERAND}}}"),
                (1, 11, f"mismatched input '<EOF>' expecting {{{OPERAND}}}"),
            ],
        ),
        (
            "a.in",
            [
                (1, 3, "no viable alternative at input '.in'"),
                (1, 5, f"mismatched input '<EOF>' expecting {{{OPERAND}}}"),
            ],
        ),
        (
            "a ? : c",
            [
                (1, 5, f"extraneous input ':' expecting {{{OPERAND}}}"),
                (1, 8, "mismatched input '<EOF>' expecting ':'"),
            ],
        ),
    ],
    ids=["assignment", "one ampersand", "no token", "in at the end", "in as a field", "nothing between"],
)
def test_mistakes_behind_the_first_are_reported(text, expected):
    assert issues(text) == expected


def test_empty_expression_is_refused():
    assert issues("") == [(1, 0, f"mismatched input '<EOF>' expecting {{{OPERAND}}}")]


def test_many_mistakes_are_cut():
    found = issues("@" * 5000)
    assert len(found) == 100
    assert found[-1] == (1, 100, "token recognition error at: '@'")
