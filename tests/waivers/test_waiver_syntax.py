"""The annotation that waives findings: what it may say, and what is said of what it may not."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from policies.admission.all_rules import rule_book
from policies.rules.waivers import MAX_ANNOTATION_LENGTH, MAX_REASON_LENGTH, parse_waivers, valid_waivers
from tests.findings import plain_text

RULES = [rule.id for rule in rule_book().rules if rule.id not in ("GA708", "GA709")]
PATH = "metadata.annotations[gpu-admission.io/ignore]"
SYNTAX = "write one entry on each line, such as GA405 because the GPUs arrive on Monday"
UNKNOWN = f"{SYNTAX}; gpu-admission rules lists the rules"


def reasons(text):
    return {rule.id: reason for rule, reason in parse_waivers(text, rule_book()).reasons.items()}


def problems(text):
    return [
        plain_text(found).removeprefix(f"{PATH}: ")
        for found in valid_waivers(parse_waivers(text, rule_book()).problems, ())
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GA405 because the GPUs arrive on Monday", {"GA405": "the GPUs arrive on Monday"}),
        ("GA405 because a; GA221 because b", {"GA405": "a", "GA221": "b"}),
        ("GA405 because a\nGA221 because b\n", {"GA405": "a", "GA221": "b"}),
        ("  GA405\tbecause   of  this ;;\r\n", {"GA405": "of this"}),
        ("GA405 because because", {"GA405": "because"}),
        ("", {}),
    ],
)
def test_annotation_names_rules_with_reasons(text, expected):
    assert reasons(text) == expected
    assert problems(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("GA405", "GA405 has no reason; write GA405 because REASON"),
        ("GA405 because", "GA405 has no reason; write GA405 because REASON"),
        ("GA405: later", f'unknown rule "GA405:"; {UNKNOWN}'),
        ("GA405 the GPUs arrive", "GA405 has no reason; write GA405 because REASON"),
        ("GA999 because x", f'unknown rule "GA999"; {UNKNOWN}'),
        ("\x1b[2J\u202e because x", f'unknown rule "\\u001b[2J\\u202e"; {UNKNOWN}'),
        ("GA708 because x", "GA708 is about waivers and cannot be ignored; remove GA708 here"),
        (7, f"must be a string; {SYNTAX}"),
        ("x" * 5000, "has 5,000 characters and at most 4,096 are read; shorten it"),
    ],
)
def test_invalid_entry_waives_nothing_and_is_reported(text, expected):
    assert reasons(text) == {}
    assert problems(text) == [expected]


def test_second_reason_of_a_rule_is_reported():
    assert reasons("GA405 because a; GA405 because b") == {"GA405": "a"}
    assert problems("GA405 because a; GA405 because b") == ["GA405 has two reasons; write one reason for GA405"]


def test_valid_entries_count_beside_invalid_ones():
    assert reasons("GA405; GA221 because b") == {"GA221": "b"}


def test_many_invalid_entries_are_a_few_problems():
    said = problems("x;" * 2000)
    assert len(said) == 6
    assert said[-1] == f"more than 5 entries are invalid; {SYNTAX}"


def test_long_reason_is_cut():
    assert reasons(f"GA405 because {'x' * 1000}") == {"GA405": "x" * (MAX_REASON_LENGTH - 3) + "..."}


@given(st.text(max_size=2 * MAX_ANNOTATION_LENGTH))
@example("GA405 because \x1b[31m")
def test_any_text_has_a_short_printable_answer(text):
    waivers = parse_waivers(text, rule_book())
    assert len(waivers.problems) <= 6
    texts = [*waivers.reasons.values(), *(plain_text(found) for found in valid_waivers(waivers.problems, ()))]
    assert all(each and each.isprintable() and len(each) <= 400 for each in texts)


_REASON = st.text(st.characters(exclude_characters=";\n", exclude_categories=("C", "Z")), min_size=1, max_size=40)


@given(st.dictionaries(st.sampled_from(RULES), _REASON, max_size=20), st.sampled_from([";", "; ", "\n", " \n\n"]))
def test_written_waivers_are_read(waived, separator):
    text = separator.join(f"{rule} because {reason}" for rule, reason in waived.items())
    assert reasons(text) == waived
