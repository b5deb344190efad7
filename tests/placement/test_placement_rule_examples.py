"""The examples of every placement rule: the wrong one breaks the rule, the right one does not."""

import pytest

from policies.admission import review
from policies.admission.all_rules import rule_book
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS, parse_settings
from testbed import libyaml
from webhook.cli.shipped_files import read_examples
from webhook.cluster.manifests import ManifestsView

RULES = [rule for rule in rule_book().rules if rule.subject == "placement" and "Pod" in rule.kinds]


def found(text):
    """The rules that find something in an example: a pod, and behind it what the cluster has."""
    pod, *cluster = libyaml.load_all(text)
    policies = [each for each in cluster if each["kind"] == "GPUAdmissionPolicy"]
    settings = parse_settings(policies[0]) if policies else DEFAULTS
    request = Request(pod, kind="Pod", namespace="team-a", name="train", entry="place-pods")
    return {finding.rule.id for finding in review(request, ManifestsView(cluster), settings).findings}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_wrong_example_breaks_the_rule(rule):
    assert rule.id in found(read_examples(rule.id).wrong)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_right_example_keeps_the_rule(rule):
    assert not {each for each in found(read_examples(rule.id).right) if each.startswith("GA4")}
