"""Waived findings on existing objects: listed with the reason, counted on their own."""

from datetime import UTC, datetime

import click
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from policies.rules.settings import DEFAULTS, parse_settings
from webhook.cli.reports.audit_reports import Audited, as_json, text
from webhook.cluster.manifests import ManifestsView
from webhook.controllers.audit_round import AuditMetrics

IGNORE = {"gpu-admission.io/ignore": "GA321 because it ends on Friday"}


@pytest.fixture
def warns():
    """Settings under which a pod that escaped conversion is only warned about."""
    policy = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "metadata": {"name": "default"}}
    return parse_settings({**policy, "spec": {"rules": [{"rule": "GA321", "severity": "warn"}]}})


@pytest.fixture
def report(k8s, audited, warns):
    """The report on two pods that escaped conversion, one of which waives it."""
    return audited(k8s.namespace(), k8s.pod("a"), k8s.pod("b", annotations=IGNORE), settings=warns)


def test_waived_finding_is_listed_last_with_its_reason(report):
    assert [(each.rule.id, each.name, each.waived) for each in report.findings] == [
        ("GA321", "a", ""),
        ("GA321", "b", "it ends on Friday"),
    ]


def test_waived_finding_is_counted_on_its_own(report):
    assert (report.counts.warn, report.counts.waived) == (1, 1)
    assert report.summary.startswith("0 objects would be refused, 1 with warnings, 1 with waived findings; ")


def test_text_has_a_section_for_waived_findings(report):
    sections = dict(
        part.split("\n", 1)
        for part in click.unstyle(text(Audited(report, (), ManifestsView(()), DEFAULTS))).split("\n\n")
        if "\n" in part
    )
    assert sections["Waived"].splitlines()[0] == "  GA321  Pod team-a/b"
    assert sections["Waived"].splitlines()[-1] == "    Waived because it ends on Friday"
    assert "team-a/b" not in sections["Warnings"]


def test_json_has_the_reason(report):
    assert '"waived": "it ends on Friday"' in as_json(Audited(report, (), ManifestsView(()), DEFAULTS))


def test_metrics_count_waived_findings_among_all(report):
    registry = CollectorRegistry()
    registry.register(AuditMetrics(lambda: (report, datetime(2027, 1, 1, tzinfo=UTC))))
    page = generate_latest(registry).decode()
    assert 'gpu_admission_audit_findings{rule="GA321",severity="warn"} 2.0' in page
    assert 'gpu_admission_audit_waived_findings{rule="GA321",severity="warn"} 1.0' in page


def test_refusal_is_not_waived_and_its_waiver_reported(k8s, audited):
    report = audited(k8s.namespace(), k8s.pod(annotations=IGNORE))
    assert [(each.rule.id, str(each.severity), each.waived) for each in report.findings] == [
        ("GA321", "deny", ""),
        ("GA708", "warn", ""),
    ]


def test_invalid_waiver_is_reported_once_for_a_pod(k8s, audited):
    report = audited(k8s.namespace(), k8s.pod(annotations={"gpu-admission.io/ignore": "GA321"}))
    assert [(each.rule.id, each.count) for each in report.findings] == [("GA321", 1), ("GA708", 1)]


def test_claims_that_differ_in_waivers_are_judged_one_by_one(k8s, audited):
    devices = {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "adminAccess": True}}]}
    claims = [
        k8s.thing("ResourceClaim", name, "team-a", "resource.k8s.io/v1", spec={"devices": devices}) for name in "ab"
    ]
    claims[1]["metadata"]["annotations"] = {"gpu-admission.io/ignore": "GA231 because it only watches"}
    labels = {"resource.kubernetes.io/admin-access": "true"}
    report = audited(k8s.namespace(**labels), *claims)
    assert {each.name: each.waived for each in report.findings if each.rule.id == "GA231"} == {
        "a": "",
        "b": "it only watches",
    }
