"""The examples of every access rule: the wrong one breaks the rule, the right one does not."""

import pytest
import yaml

from policies.admission.all_rules import rule_book
from testbed import libyaml
from webhook.cli.shipped_files import read_examples

RULES = [rule for rule in rule_book().rules if rule.id.startswith("GA6")]


def examined(text, found):
    pod, *cluster = libyaml.load_all(text)
    findings = found(pod["spec"], metadata=pod["metadata"], cluster=yaml.safe_dump_all(cluster))
    return {finding.rule.id for finding in findings}


def test_rules_are_numbered_without_gaps():
    assert [rule.id for rule in RULES] == [f"GA6{number:02}" for number in range(1, 12)]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_wrong_example_breaks_the_rule(rule, found):
    assert rule.id in examined(read_examples(rule.id).wrong, found)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_right_example_breaks_no_rule(rule, found):
    assert examined(read_examples(rule.id).right, found) == set()
