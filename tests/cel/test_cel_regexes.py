import pytest

from policies.cel import errors
from policies.cel.errors import CelRuntimeError, EvaluationAborted
from policies.cel.libraries.strings import REGEX_LIBRARY, compile_pattern

OVERLOADS = {overload.id: overload for overload in REGEX_LIBRARY}


def call(overload, *arguments):
    errors.begin_evaluation()
    return OVERLOADS[overload].implementation(*arguments)


def failure(run, *arguments):
    errors.begin_evaluation()
    with pytest.raises(CelRuntimeError) as raised:
        run(*arguments)
    return raised.value.message


def test_functions_have_the_overloads_of_cel_go_and_kubernetes():
    assert {
        name: [each.id for each in REGEX_LIBRARY if each.name == name]
        for name in (overload.name for overload in REGEX_LIBRARY)
    } == {
        "matches": ["matches", "matches_string"],
        "find": ["string_find_string"],
        "findAll": ["string_find_all_string", "string_find_all_string_int"],
    }


@pytest.mark.parametrize(
    ("text", "pattern", "answer"),
    [
        ("asymetric", "[^a]?sym", True),
        ("NVIDIA H100", "(?i)h100", True),
        ("NVIDIA H100", "^H100", False),
        ("a\nb", "^b", False),
        ("a\nb", "(?m)^b", True),
        ("a\nb", "a.b", False),
        ("a\nb", "(?s)a.b", True),
        ("", "", True),
        ("\u00e9", r"^\pL$", True),
        ("\u00e9", r"^\w$", False),
        ("\u03b1", r"\p{greek}", True),
        ("\u03b1", r"\p{^Greek}", False),
        ("a", r"^\p{ Lowercase_letter}$", True),
        ("A", r"[\p{LC}]", True),
        ("1", r"\P{LC}", True),
        ("\u0378", r"\p{Cn}", True),
        ("\u0378", r"[^\p{Assigned}]", True),
        ("\u0378", r"\pC", True),
        ("a", r"\pC", False),
        ("\u00e9", r"\P{ASCII}", True),
        ("]", "[]]", True),
        ("-", "[a-]", True),
        ("b{2", "b{2", True),
        ("b{,2}", "^b{,2}$", True),
        ("a.b", r"\Qa.b\E", True),
        ("axb", r"\Qa.b", False),
        ("aa", r"(?P<n>a)(?P<n>a)", True),
        ("aa", r"(?<n>a)(?<m>a)", True),
        ("A\u00e9", r"\x41\x{e9}", True),
        ("\n\x07", r"\n\a", True),
        ("S", r"\123", True),
        ("aaa", r"^a*\Q\E*$", True),
    ],
)
def test_patterns_mean_what_they_mean_to_go(text, pattern, answer):
    assert call("matches_string", text, pattern) is answer
    assert call("matches", text, pattern) is answer


@pytest.mark.parametrize(
    ("text", "pattern", "found"),
    [("abc 123", "[0-9]+", "123"), ("abc", "[0-9]+", ""), ("abc", "b*", ""), ("h\u00e9llo", ".ll", "\u00e9ll")],
)
def test_find_is_the_first_match(text, pattern, found):
    assert call("string_find_string", text, pattern) == found


@pytest.mark.parametrize(
    ("text", "pattern", "limit", "found"),
    [
        ("123 abc 456", "[0-9]+", -1, ("123", "456")),
        ("123 abc 456", "[0-9]+", 1, ("123",)),
        ("123 abc 456", "[0-9]+", 0, ()),
        ("123", "x", -1, ()),
        ("baaac", "a*", -1, ("", "aaa", "")),
        ("aaa", "a*?", -1, ("", "", "", "")),
        ("\u00e9\u00e9", "", -1, ("", "", "")),
        ("ab ab", r"\ba", -1, ("a", "a")),
        ("aaa", "^a", -1, ("a",)),
        ("-\u00e9-", r"\B", -1, ("", "", "", "")),
    ],
)
def test_find_all_is_every_match_up_to_the_limit(text, pattern, limit, found):
    assert call("string_find_all_string_int", text, pattern, limit) == found


def test_find_all_has_no_limit_by_itself():
    assert call("string_find_all_string", "aaa", "a") == ("a", "a", "a")


def test_nothing_is_found_inside_of_a_character():
    assert call("matches_string", "a\u00e9a", r"a\B") is False
    assert call("matches_string", "\u20ac", r"^\B") is True
    assert call("matches_string", "a\u00e9", r"[^\x00-\x{10ffff}]|\Ba") is False


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("[", "missing closing ]: `[`"),
        ("a[b", "missing closing ]: `[b`"),
        ("[]", "missing closing ]: `[]`"),
        ("[a-", "missing closing ]: `[a-`"),
        ("(a", "missing closing ): `(a`"),
        ("a)", "unexpected ): `a)`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("(+?)", "missing argument to repetition operator: `+?`"),
        ("a|{2}", "missing argument to repetition operator: `{2}`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2}{3}?", "invalid nested repetition operator: `{2}{3}?`"),
        ("a{1001}", "invalid repeat count: `{1001}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("a{99999999999}", "invalid repeat count: `{99999999999}`"),
        ("(a{100}){11}", "invalid repeat count: `{11}`"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?<!a)", "invalid named capture: `(?<!a)`"),
        ("(?P=n)", "invalid or unsupported Perl syntax: `(?P`"),
        ("(?i", "invalid or unsupported Perl syntax: `(?i`"),
        ("(?-)", "invalid or unsupported Perl syntax: `(?-)`"),
        ("(?", "invalid or unsupported Perl syntax: `(?`"),
        ("(?P<a", "invalid named capture: `(?P<a`"),
        ("(?P<a b>c)", "invalid named capture: `(?P<a b>`"),
        ("(?<>c)", "invalid named capture: `(?<>`"),
        ("\\", "trailing backslash at end of expression: ``"),
        ("[\\", "trailing backslash at end of expression: ``"),
        (r"\q", r"invalid escape sequence: `\q`"),
        (r"\C", r"invalid escape sequence: `\C`"),
        (r"\1", r"invalid escape sequence: `\1`"),
        (r"\8", r"invalid escape sequence: `\8`"),
        ("\\\u00e9", "invalid escape sequence: `\\\u00e9`"),
        (r"[\b]", r"invalid escape sequence: `\b`"),
        (r"\x", r"invalid escape sequence: `\x`"),
        (r"\x4", r"invalid escape sequence: `\x4`"),
        (r"\xg1", r"invalid escape sequence: `\xg1`"),
        (r"\x{", r"invalid escape sequence: `\x{`"),
        (r"\x{}", r"invalid escape sequence: `\x{}`"),
        (r"\x{4zz}", r"invalid escape sequence: `\x{4z`"),
        (r"\x{110000}", r"invalid escape sequence: `\x{110000`"),
        (r"\x{001fffffff}", r"invalid escape sequence: `\x{001fffff`"),
        ("[c-a]", "invalid character class range: `c-a`"),
        (r"[a-\d]", r"invalid escape sequence: `\d`"),
        ("[[:foo:]]", "invalid character class range: `[:foo:]`"),
        (r"\p{Foo}", r"invalid character class range: `\p{Foo}`"),
        (r"[\pX]", r"invalid character class range: `\pX`"),
        (r"\p", r"invalid character class range: `\p`"),
        (r"\p{Greek", r"invalid character class range: `\p{Greek`"),
    ],
)
def test_bad_patterns_are_refused_in_gos_words(pattern, message):
    assert failure(compile_pattern, pattern) == f"error parsing regexp: {message}"


def test_too_deep_patterns_are_refused_in_gos_words():
    pattern = "(?:" * 1000 + ")*" * 1000

    assert failure(compile_pattern, pattern) == f"error parsing regexp: expression nests too deeply: `{pattern}`"


def test_too_large_patterns_are_refused_in_gos_words():
    pattern = "(xx?){1000}" * 1000

    assert failure(compile_pattern, pattern) == f"error parsing regexp: expression too large: `{pattern}`"


def test_brackets_without_meaning_may_be_deep():
    assert call("matches_string", "a", "(?:" * 5000 + "a" + ")" * 5000) is True


def test_matches_says_what_go_says():
    assert failure(call, "matches_string", "a", "(") == "error parsing regexp: missing closing ): `(`"


@pytest.mark.parametrize("overload", ["string_find_string", "string_find_all_string"])
def test_find_says_that_the_pattern_is_illegal(overload):
    assert failure(call, overload, "a", "(") == "Illegal regex: error parsing regexp: missing closing ): `(`"


def test_patterns_too_large_for_us_are_refused():
    assert failure(call, "matches_string", "a", r"(\pL{100}){10}") == (
        "regular expression too large: this evaluator stops at 8 MiB, Kubernetes at 128 MiB; repeat less in it"
    )


def test_patterns_too_long_for_us_are_refused():
    assert (
        failure(compile_pattern, "a" * 70_000)
        == "regular expression too long: this evaluator stops at 65536 characters"
    )


def test_many_letters_fit():
    assert call("matches_string", "\u00e9" * 63, r"^\pL{63}$") is True


@pytest.mark.parametrize("overload", ["matches_string", "string_find_all_string"])
def test_searches_that_could_take_minutes_are_stopped(overload):
    with pytest.raises(EvaluationAborted):
        call(overload, "ab" * 200_000, r"\pL{20}x")


def test_large_patterns_cost_the_same_whether_they_are_new_or_not():
    left = []
    for _ in range(2):
        call("matches_string", "a", r"\pL{20}")
        left.append(errors._METER.left)

    assert left[0] == left[1]
