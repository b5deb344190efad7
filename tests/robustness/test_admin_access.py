"""Admin access cannot be allowed without the right, and its use is reported."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from policies.admission import review
from policies.analyses.audit import Survey, audit
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.deploy.match_conditions import holds
from webhook.cluster.manifests import ManifestsView

LABEL = "resource.kubernetes.io/admin-access"
INSTALLED = list(libyaml.load_all((Path(__file__).parents[2] / "deploy" / "install.yaml").read_text()))
VALUES = st.sampled_from([None, "true", "false", "True", ""])
OTHERS = st.dictionaries(st.sampled_from(["team", "gpu-admission.io/dra"]), st.sampled_from(["a", "enabled"]))


def guard():
    (policy,) = (
        each
        for each in INSTALLED
        if (each["kind"], each["metadata"]["name"]) == ("ValidatingAdmissionPolicy", "admin-access.gpu-admission.io")
    )
    return policy["spec"]


def namespace(value, others, name="team-a"):
    labels = others | ({} if value is None else {LABEL: value})
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name} | ({"labels": labels} if labels else {}),
    }


@given(st.one_of(st.none(), st.tuples(VALUES, OTHERS)), VALUES, OTHERS)
def test_every_change_that_sets_the_label_needs_the_right_and_no_other_does(before, value, others):
    old = None if before is None else namespace(*before)
    was = None if before is None else before[0]
    guarded = all(holds(each["expression"], namespace(value, others), old) for each in guard()["matchConditions"])
    assert guarded is (value is not None and value != was)


EXACT = {"deviceClassName": "gpu.nvidia.com", "adminAccess": True}
OBJECTS = {
    "v1": {"name": "gpu", "exactly": EXACT},
    "v1beta2": {"name": "gpu", "exactly": EXACT},
    "v1beta1": {"name": "gpu", **EXACT},
}


def claims():
    """Claims and templates with admin access, in every version of the API."""
    for version, request in OBJECTS.items():
        spec = {"devices": {"requests": [request]}}
        metadata = {"name": version, "namespace": "team-a"}
        for kind, held in (("ResourceClaim", spec), ("ResourceClaimTemplate", {"spec": spec})):
            yield {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": metadata, "spec": held}


def test_no_request_for_admin_access_is_admitted_silently():
    for known in ([namespace("true", {})], []):
        view = ManifestsView(known)
        for claim in claims():
            for entry in ("", "claims"):
                request = Request(claim, group="resource.k8s.io", kind=claim["kind"], namespace="team-a", entry=entry)
                assert {(each.rule.id, each.severity) for each in review(request, view, DEFAULTS).findings} >= {
                    ("GA231", Severity.WARN)
                }


def test_label_in_a_file_is_reported():
    request = Request(namespace("true", {}), kind="Namespace", name="team-a")
    assert [each.rule.id for each in review(request, ManifestsView(), DEFAULTS).findings] == ["GA232"]


def test_audit_reports_what_there_is():
    objects = [namespace("true", {}), *claims()]
    view = ManifestsView(objects)
    report = audit(view, DEFAULTS, Survey(view, DEFAULTS))
    reported = Counter()
    for finding in report.findings:
        reported[finding.rule.id, finding.kind] += finding.count
    assert reported["GA232", "Namespace"] == 1
    assert reported["GA231", "ResourceClaim"] == reported["GA231", "ResourceClaimTemplate"] == len(OBJECTS)
