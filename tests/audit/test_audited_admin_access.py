"""Admin access in an audit: namespaces that allow it, claims and templates that request it, pods that hold it."""

import pytest
from click import unstyle

from policies.rules.decision import Severity
from policies.rules.settings import DEFAULTS
from webhook.cli.reports.audit_reports import Audited, text
from webhook.cluster.manifests import ManifestsView

LABEL = "resource.kubernetes.io/admin-access"
ALL = {
    "devices": {
        "requests": [
            {
                "name": "all",
                "exactly": {"deviceClassName": "gpu.nvidia.com", "allocationMode": "All", "adminAccess": True},
            }
        ]
    }
}


def admin(k8s, name="team-a"):
    return k8s.namespace(name, mode="", **{LABEL: "true"})


def claim(k8s, name="monitor", namespace="team-a", **status):
    return k8s.thing("ResourceClaim", name, namespace, "resource.k8s.io/v1", spec=ALL, status=status)


def findings_of(report):
    return [(each.rule.id, each.severity, each.kind, each.namespace, each.name, each.count) for each in report.findings]


def test_namespace_that_allows_admin_access_is_reported(k8s, audited):
    (finding,) = audited(admin(k8s)).findings
    assert (finding.rule.id, finding.severity, finding.kind, finding.name) == (
        "GA232",
        Severity.WARN,
        "Namespace",
        "team-a",
    )
    assert str(finding.path) == "metadata.labels[resource.kubernetes.io/admin-access]"
    assert finding.message == (
        'lets everyone who may create claims in namespace "team-a" use devices that other pods hold'
    )
    assert finding.remedy == (
        "remove the label, unless only administrators may create claims, templates and pods in this namespace"
    )


def test_claims_with_admin_access_are_reported_with_the_pods_that_hold_them(k8s, audited):
    claims = [
        claim(k8s, f"monitor-{number}", reservedFor=[{"resource": "pods", "name": f"agent-{number}", "uid": "u"}])
        for number in range(3)
    ]
    found = [each for each in audited(admin(k8s), *claims).findings if each.kind == "ResourceClaim"]
    assert [(each.rule.id, each.severity, each.name, each.count, each.owners) for each in found] == [
        ("GA231", Severity.WARN, "monitor-0", 3, ("Pod agent-0", "Pod agent-1", "Pod agent-2"))
    ]
    assert found[0].message == "lets the claim's pods use devices that other pods hold"


def test_templates_with_admin_access_are_reported(k8s, audited):
    template = k8s.thing("ResourceClaimTemplate", "monitor", "team-a", "resource.k8s.io/v1", spec={"spec": ALL})
    assert ("GA231", Severity.WARN, "ResourceClaimTemplate", "team-a", "monitor", 1) in findings_of(
        audited(admin(k8s), template)
    )


def test_claim_that_outlived_the_label_would_be_refused_today(k8s, audited):
    """A claim that is allocated keeps its devices without the label."""
    assert findings_of(audited(k8s.namespace(mode=""), claim(k8s))) == [
        ("GA220", Severity.DENY, "ResourceClaim", "team-a", "monitor", 1)
    ]


@pytest.mark.parametrize(
    "name", ["gpu-operator", "nvidia-gpu-operator", "nvidia-dra-driver-gpu", "dra-driver-nvidia-gpu"]
)
def test_where_gpus_are_handed_out_admin_access_is_worth_knowing(k8s, audited, name):
    assert findings_of(audited(admin(k8s, name), claim(k8s, namespace=name))) == [
        ("GA231", Severity.AUDIT, "ResourceClaim", name, "monitor", 1),
        ("GA232", Severity.AUDIT, "Namespace", "", name, 1),
    ]


def test_one_namespace_is_audited_with_its_label(k8s, audited):
    report = audited(admin(k8s), admin(k8s, "team-b"), claim(k8s, namespace="team-b"), namespace="team-a")
    assert findings_of(report) == [("GA232", Severity.WARN, "Namespace", "", "team-a", 1)]


def test_text_names_claims_and_the_pods_that_hold_them(k8s, audited):
    held = claim(k8s, reservedFor=[{"resource": "pods", "name": "agent", "uid": "u"}])
    lines = unstyle(text(Audited(audited(admin(k8s), held), (), ManifestsView(()), DEFAULTS))).splitlines()
    assert lines[:7] == [
        "Warnings",
        "  GA231  ResourceClaim team-a/monitor (Pod agent)",
        "    spec.devices.requests[0].exactly.adminAccess: lets the claim's pods use devices that other pods hold",
        "    What to do: remove adminAccess, unless the claim's pods monitor or maintain devices",
        "  GA232  Namespace team-a",
        (
            "    metadata.labels[resource.kubernetes.io/admin-access]: lets everyone who may create claims in namespace "
            '"team-a" use devices that other pods hold'
        ),
        "    What to do: remove the label, unless only administrators may create claims, templates and pods in this namespace",
    ]
