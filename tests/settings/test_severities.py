"""Severities: the order of precedence, by namespace."""

import pytest

from policies.admission.all_rules import rule_book
from policies.kubernetes.objects import FieldPath
from policies.rules.decision import Decision, Finding, Severity
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, RuleOverride

DENY, WARN, AUDIT, OFF = Severity.DENY, Severity.WARN, Severity.AUDIT, Severity.OFF


def policy(*overrides):
    return GPUAdmissionPolicy(rules=tuple(RuleOverride(*override) for override in overrides))


def finding(rule, severity):
    return Finding(rule_book().get(rule), severity, FieldPath(["spec"]), "is wrong", "put it right")


def test_severity_is_the_default_where_nothing_overrides_it():
    assert DEFAULTS.severity_of("GA301", DENY, "team-a") is DENY
    assert policy(("GA302", OFF)).severity_of("GA301", WARN, "team-a") is WARN


def test_override_holds_everywhere_where_it_names_no_namespace():
    chosen = policy(("GA301", AUDIT))
    assert [chosen.severity_of("GA301", DENY, namespace) for namespace in ("team-a", "default", "")] == [AUDIT] * 3


@pytest.mark.parametrize(
    ("pattern", "namespace", "holds"),
    [
        ("team-*", "team-a", True),
        ("team-*", "team-", True),
        ("team-*", "a-team-b", False),
        ("*-dev", "team-dev", True),
        ("team-?", "team-a", True),
        ("team-?", "team-ab", False),
        ("team-[ab]", "team-b", True),
        ("team-[!ab]", "team-b", False),
        ("team-a", "team-a", True),
        ("team-a", "TEAM-A", False),
        ("*", "", True),
        ("", "", True),
        ("team-a", "", False),
    ],
)
def test_namespaces_are_shell_patterns(pattern, namespace, holds):
    chosen = policy(("GA301", OFF, ("nowhere", pattern)))
    assert chosen.severity_of("GA301", DENY, namespace) is (OFF if holds else DENY)


def test_later_overrides_win():
    chosen = policy(("GA301", OFF), ("GA301", WARN, ("team-*",)), ("GA301", DENY, ("team-a",)))
    severities = {name: chosen.severity_of("GA301", AUDIT, name) for name in ("team-a", "team-b", "other")}
    assert severities == {"team-a": DENY, "team-b": WARN, "other": OFF}


def test_later_override_wins_over_a_narrower_one_before_it():
    chosen = policy(("GA301", DENY, ("team-a",)), ("GA301", WARN))
    assert chosen.severity_of("GA301", AUDIT, "team-a") is WARN


def test_judging_sets_severities_and_keeps_the_order():
    chosen = policy(("GA302", WARN))
    judged = chosen.judge([finding("GA303", DENY), finding("GA302", DENY), finding("GA301", AUDIT)], "a")
    assert [(found.rule.id, found.severity) for found in judged] == [("GA303", DENY), ("GA302", WARN), ("GA301", AUDIT)]


def test_judging_drops_what_is_off():
    chosen = policy(("GA301", OFF, ("team-*",)))
    findings = [finding("GA301", DENY), finding("GA302", DENY)]
    assert [found.rule.id for found in chosen.judge(findings, "team-a")] == ["GA302"]
    assert chosen.judge(findings, "other") == tuple(findings)


def test_rule_that_is_off_by_default_can_be_turned_on():
    assert DEFAULTS.judge([finding("GA301", OFF)], "a") == ()
    assert policy(("GA301", WARN)).judge([finding("GA301", OFF)], "a") == (finding("GA301", WARN),)


def test_one_denial_refuses():
    findings = (finding("GA301", WARN), finding("GA302", DENY), finding("GA303", AUDIT))
    assert not Decision(findings=findings).allowed
    assert Decision(findings=findings).denials == (findings[1],)


@pytest.mark.parametrize("severity", [WARN, AUDIT])
def test_other_severities_let_pass(severity):
    assert Decision(findings=(finding("GA301", severity),)).allowed
    assert Decision().allowed
