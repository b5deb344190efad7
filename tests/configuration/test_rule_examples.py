"""The examples of every configuration rule: the wrong one breaks the rule, the right one does not."""

import pytest

from policies.admission.all_rules import rule_book
from tests.rules.advice import OF_SCHEMA
from webhook.cli.shipped_files import read_examples

UNTRIED = {"GA709", "GA710"}
"""Rules about all findings on an object, and about the text of a document, which the review of an object does not see."""
RULES = [rule for rule in rule_book().rules if rule.id.startswith(("GA1", "GA7")) and rule.id not in UNTRIED]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_wrong_example_breaks_the_rule(rule, examined):
    found = examined(read_examples(rule.id).wrong, complete=rule.id not in OF_SCHEMA)
    assert rule.id in {finding.rule.id for finding in found}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_right_example_keeps_the_rule(rule, examined):
    assert rule.id not in {finding.rule.id for finding in examined(read_examples(rule.id).right, complete=True)}
