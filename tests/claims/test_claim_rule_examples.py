"""The examples of every claim rule: the wrong one breaks the rule, the right one does not."""

import pytest

from policies.admission.all_rules import rule_book
from webhook.cli.shipped_files import read_examples

RULES = [rule for rule in rule_book().rules if rule.id.startswith("GA2")]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_wrong_example_breaks_the_rule(rule, examined):
    assert rule.id in {finding.rule.id for finding in examined(read_examples(rule.id).wrong)}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_right_example_keeps_the_rule(rule, examined):
    assert rule.id not in {finding.rule.id for finding in examined(read_examples(rule.id).right)}
