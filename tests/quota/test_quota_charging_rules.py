"""The examples of every charging rule: the wrong one breaks the rule, the right one does not."""

import pytest

from policies.admission import load_rules, review
from policies.admission.all_rules import rule_book
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from webhook.cli.shipped_files import read_examples
from webhook.cluster.manifests import ManifestsView

load_rules()
RULES = [rule for rule in rule_book().rules if "GA502" <= rule.id <= "GA506"]


def examined(text):
    created, *cluster = libyaml.load_all(text)
    group = created["apiVersion"].rpartition("/")[0]
    request = Request(created, group=group, kind=created["kind"], namespace=created["metadata"]["namespace"])
    findings = review(request, ManifestsView(cluster, [created]), DEFAULTS).findings
    return {finding.rule.id for finding in findings if finding.rule.id.startswith("GA5")}


def test_rules_are_numbered_without_gaps_and_those_on_charges_fixed():
    assert [rule.id for rule in RULES] == ["GA502", "GA503", "GA504", "GA505", "GA506"]
    assert [rule.fixed for rule in RULES] == [True] * 4 + [False]
    assert [rule.default for rule in RULES] == [Severity.DENY] * 3 + [Severity.WARN] * 2


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_wrong_example_breaks_the_rule(rule):
    assert examined(read_examples(rule.id).wrong) == {rule.id}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_right_example_breaks_no_rule(rule):
    assert examined(read_examples(rule.id).right) == set()
