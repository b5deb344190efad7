"""The facts in docs/audit.md: rules, metrics and the length of a report."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from policies.admission.all_rules import rule_book
from policies.analyses.audit import MOST_FINDINGS
from policies.analyses.audit.checks import KARPENTER, TEMPLATE_MISSING
from webhook.controllers.audit_round import AuditMetrics

PAGE = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()


@pytest.mark.parametrize("code", [KARPENTER.id, TEMPLATE_MISSING.id])
def test_page_names_the_findings_that_only_an_audit_has(code):
    assert f"| `{code}` |" in PAGE


def test_rules_that_the_page_names_exist():
    named = set(re.findall(r"GA\d{3}", PAGE))
    assert named
    assert all(rule_book().get(rule) for rule in named)


def test_page_has_every_metric_with_its_labels():
    reported = {
        name: re.findall(r"`(\w+)`", labels) for name, labels in re.findall(r"\| `(gpu_\w+)` \| (.*?) ?\|", PAGE)
    }
    assert reported == {family.name: list(family._labelnames) for family in AuditMetrics(lambda: None).collect()}


def test_page_has_the_maximal_length_of_a_report():
    assert f"at most {MOST_FINDINGS} findings" in " ".join(PAGE.split())
