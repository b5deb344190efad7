"""Every rule is complete, and ids are unique."""

import re

import pytest

from policies.admission.all_rules import rule_book
from policies.admission.pods import well_formed_pod
from policies.kubernetes.objects import FieldPath
from policies.rules.checks import RuleBook
from policies.rules.decision import Finding, Severity
from policies.rules.settings import DEFAULTS
from tests.findings import labelled_text, plain_text

RULES = rule_book().rules
PATH = FieldPath(["spec"])


def test_there_are_rules_in_the_order_of_their_ids():
    assert len(RULES) >= 20
    assert [checked.id for checked in RULES] == sorted({checked.id for checked in RULES})


def test_id_is_ga_and_three_digits():
    for checked in RULES:
        assert re.fullmatch(r"GA[1-7][0-9]{2}", checked.id), checked.id


def test_rule_is_reported_in_full():
    for checked in RULES:
        for text in ("title", "why", "remedy", "source"):
            value = getattr(checked, text)
            assert value, (checked.id, text)
            assert value == value.strip(), (checked.id, text)


def test_title_is_a_statement_without_full_stop():
    for checked in RULES:
        assert checked.title[0].isupper() or checked.title.startswith("nvidia.com/"), checked.id
        assert not checked.title.endswith("."), checked.id
        assert "\n" not in checked.title, checked.id


def test_remedy_is_an_imperative_without_full_stop():
    for checked in RULES:
        assert not checked.remedy.endswith("."), checked.id
        assert "\n" not in checked.remedy, checked.id
        assert re.match(r"[a-z]", checked.remedy), checked.id
        first_word = checked.remedy.split()[0]
        assert first_word not in {"a", "an", "the", "you", "it", "this", "please", "should", "must", "consider"}, (
            checked.id
        )
        assert not first_word.endswith(("ing", "ed")), checked.id


def test_why_is_prose():
    for checked in RULES:
        assert checked.why.endswith("."), checked.id
        assert all(line == line.rstrip() for line in checked.why.splitlines()), checked.id
        assert not any(line.startswith(" ") for line in checked.why.splitlines()), checked.id


def test_default_is_a_severity_that_says_something():
    for checked in RULES:
        assert isinstance(checked.default, Severity), checked.id


def test_setting_that_a_rule_names_exists():
    for checked in RULES:
        if checked.setting:
            section, name = checked.setting.split(".")
            assert hasattr(
                getattr(DEFAULTS, section), re.sub(r"[A-Z]", lambda letter: "_" + letter.group().lower(), name)
            ), checked.id


def test_titles_are_unique():
    assert len({checked.title for checked in RULES}) == len(RULES)


def test_two_rules_with_one_id_are_no_book():
    with pytest.raises(ValueError, match="rule GA301 is declared twice"):
        RuleBook.of((well_formed_pod, well_formed_pod))


def test_rule_is_found_by_its_id():
    assert [rule_book().get(checked.id) for checked in RULES] == list(RULES)
    assert rule_book().get("GA999") is None


def test_finding_takes_remedy_and_severity_from_its_rule():
    checked = RULES[0]
    assert checked.finding(PATH, "is wrong") == Finding(checked, checked.default, PATH, "is wrong", checked.remedy)


def test_occasion_may_know_better():
    finding = RULES[0].finding(PATH, "is wrong", "do this", severity=Severity.AUDIT)
    assert (finding.remedy, finding.severity) == ("do this", Severity.AUDIT)
    assert RULES[0].finding(PATH, "is wrong", "").remedy == ""


@pytest.mark.parametrize(
    ("path", "remedy", "text"),
    [
        (["spec", "x"], "write 1", "spec.x: is wrong; write 1"),
        (["spec", "x"], "", "spec.x: is wrong"),
        ([], "write 1", "is wrong; write 1"),
        ([], "", "is wrong"),
    ],
)
def test_finding_reads_as_one_sentence(path, remedy, text):
    finding = Finding(rule_book().get("GA301"), Severity.DENY, FieldPath(path), "is wrong", remedy)
    assert plain_text(finding) == text
    assert labelled_text(finding) == f"{text} [GA301]"
