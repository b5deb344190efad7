"""The reports of an audit for policy tools, as objects."""

from __future__ import annotations

import json
from dataclasses import replace

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.analyses.audit import OPEN_REPORTS, POLICY_REPORTS, AuditFinding, AuditReport, Gap, policy_reports
from policies.analyses.audit.policy_reports import LARGEST_REPORT
from policies.conversion.convert import converted_pod
from policies.kubernetes.objects import FieldPath
from policies.rules.decision import Severity
from tests.audit.report_apis import OPEN_SCHEMA, POLICY_SCHEMA, strict_schema

EMPTY = AuditReport((), 0, {}, {}, (), ())
POD = AuditFinding(
    converted_pod.rule,
    Severity.DENY,
    "Pod",
    "team-a",
    "train",
    FieldPath(["spec", "containers"]),
    "requests GPUs",
    "create it again",
    "give the namespace another label",
    api_version="v1",
    uid="1234",
)
NODE = replace(POD, kind="Node", namespace="", name="node-1", severity=Severity.WARN, uid="")
CONFIG = replace(POD, kind="ConfigMap", name="x", severity=Severity.AUDIT, waived="it is old")
SCHEMAS = {OPEN_REPORTS: strict_schema(OPEN_SCHEMA), POLICY_REPORTS: strict_schema(POLICY_SCHEMA)}


def reports_of(*findings, api=OPEN_REPORTS, namespace="", **fields):
    return policy_reports(replace(EMPTY, findings=findings, **fields), api, namespace)


def test_report_names_the_object_the_rule_and_what_to_do():
    (report,) = reports_of(replace(POD, count=40, owners=("ReplicaSet a", "ReplicaSet b")))
    assert report == {
        "apiVersion": "openreports.io/v1alpha1",
        "kind": "Report",
        "metadata": {"name": "gpu-admission", "namespace": "team-a", "labels": {"gpu-admission.io/managed": "true"}},
        "source": "gpu-admission",
        "summary": {"pass": 0, "fail": 1, "warn": 0, "error": 0, "skip": 0},
        "results": [
            {
                "source": "gpu-admission",
                "policy": "gpu-admission",
                "rule": "GA321",
                "result": "fail",
                "severity": "high",
                "scored": True,
                "message": "Create it again: containers requests GPUs; spec.containers",
                "resources": [
                    {"apiVersion": "v1", "kind": "Pod", "namespace": "team-a", "name": "train", "uid": "1234"}
                ],
                "properties": {
                    "title": converted_pod.rule.title,
                    "path": "spec.containers",
                    "administrator": "give the namespace another label",
                    "objects": "40",
                    "owners": "ReplicaSet a and ReplicaSet b",
                },
            }
        ],
    }


def test_policy_reports_have_the_same_results():
    (open_report,), (policy_report,) = reports_of(POD), reports_of(POD, api=POLICY_REPORTS)
    assert (policy_report["apiVersion"], policy_report["kind"]) == ("wgpolicyk8s.io/v1alpha2", "PolicyReport")
    assert policy_report["results"] == open_report["results"]
    assert "source" not in policy_report


def test_each_namespace_has_a_report_and_the_cluster_has_one():
    found = reports_of(POD, NODE, CONFIG, replace(POD, namespace="team-b"))
    assert [(each["kind"], each["metadata"].get("namespace")) for each in found] == [
        ("ClusterReport", None),
        ("Report", "team-a"),
        ("Report", "team-b"),
    ]
    assert [len(each["results"]) for each in found] == [1, 2, 1]


@pytest.mark.parametrize(
    ("finding", "expected"),
    [
        (POD, ("fail", "high", True)),
        (replace(POD, severity=Severity.WARN), ("warn", "medium", False)),
        (replace(POD, severity=Severity.AUDIT), ("warn", "low", False)),
        (CONFIG, ("skip", "low", False)),
    ],
    ids=["deny", "warn", "audit", "waived"],
)
def test_severity_becomes_result_and_severity(finding, expected):
    ((result,),) = (each["results"] for each in reports_of(finding))
    assert (result["result"], result["severity"], result["scored"]) == expected


def test_reason_of_a_waiver_is_a_property():
    ((result,),) = (each["results"] for each in reports_of(CONFIG))
    assert result["properties"]["waived"] == "it is old"


@pytest.mark.parametrize("namespace", ["", "team-a"])
def test_kinds_that_were_not_reviewed_are_errors(namespace):
    gap = Gap(("Pod",), "forbidden: list pods", "which of them escaped is unknown")
    (report,) = reports_of(gaps=(gap,), namespace=namespace)
    assert report["metadata"].get("namespace", "") == namespace
    assert report["summary"]["error"] == 1
    (result,) = report["results"]
    assert (result["rule"], result["result"]) == ("not-reviewed", "error")
    assert result["message"] == "not reviewed: Pods (forbidden: list pods): which of them escaped is unknown"


def test_findings_that_do_not_fit_are_counted_and_the_worst_stay():
    long = [replace(POD, name=f"pod-{number}", message="x" * 3000) for number in range(400)]
    (report,) = reports_of(*long, CONFIG)
    *kept, last = report["results"]
    assert 200 < len(kept) < 400
    assert len(json.dumps(report).encode()) <= LARGEST_REPORT
    assert report["summary"]["fail"] == 400
    assert (last["rule"], last["result"]) == ("left-out", "skip")
    hidden = 401 - len(kept)
    assert last["message"] == (
        f"{hidden} less severe findings left out, because a report has limits; gpu-admission audit -n team-a -o json has up "
        "to a thousand"
    )


def test_kinds_that_were_not_reviewed_are_never_left_out():
    gap = Gap(("Pod",), "", "x")
    (report,) = reports_of(
        *(replace(NODE, name=f"n-{number}", message="x" * 3000) for number in range(400)), gaps=(gap,)
    )
    assert (report["results"][0]["rule"], report["results"][-1]["rule"]) == ("not-reviewed", "left-out")


def test_findings_that_the_audit_left_out_are_counted_in_the_report_on_the_cluster():
    (report,) = reports_of(NODE, left_out=7)
    assert report["results"][-1]["message"].startswith("7 less severe findings left out, because")


def test_audit_without_findings_has_no_report():
    assert reports_of() == ()


def test_uid_is_that_of_the_stored_object(audited, k8s):
    pod = k8s.pod("train-1")
    pod["metadata"]["uid"] = "of-train-1"
    (finding,) = audited(k8s.namespace(), k8s.pod("train-2"), pod).findings
    assert (finding.api_version, finding.name, finding.uid) == ("v1", "train-1", "of-train-1")


def test_cluster_scoped_objects_have_their_api_version(audited, k8s):
    found = audited(k8s.namespace(), k8s.workload(), k8s.node_pool(), k8s.quota()).findings
    versions = {(each.kind, each.api_version) for each in found}
    assert versions == {("NodePool", "karpenter.sh/v1"), ("ResourceQuota", "v1")}


findings = st.builds(
    replace,
    st.sampled_from([POD, NODE, CONFIG]),
    namespace=st.sampled_from(["", "team-a", "team-b"]),
    message=st.text(max_size=200),
    remedy=st.text(max_size=20),
    owners=st.lists(st.text(max_size=20), max_size=30).map(tuple),
    count=st.integers(1, 10**6),
    waived=st.text(max_size=10),
    uid=st.sampled_from(["", "1234"]),
)


@given(st.lists(findings, max_size=20), st.integers(0, 3), st.sampled_from([OPEN_REPORTS, POLICY_REPORTS]))
def test_reports_have_the_schema_of_their_api(found, left_out, api):
    gaps = (Gap(("Pod",), "", "x"),)
    for report in reports_of(*found, api=api, left_out=left_out, gaps=gaps):
        jsonschema.validate(report, SCHEMAS[api])


@given(st.lists(findings, max_size=10))
def test_equal_audits_give_equal_reports_and_lose_nothing(found):
    first = reports_of(*found)
    assert first == reports_of(*found)
    assert sum(len(each["results"]) for each in first) == len(found)


def test_texts_are_redacted_for_the_readers_of_their_namespace():
    found = replace(EMPTY, findings=(replace(POD, remedy="see node-1"), NODE), gaps=(Gap(("Pod",), "no", "unknown"),))
    reports = policy_reports(found, OPEN_REPORTS, "", lambda namespace, text: f"for {namespace or 'all'}: {text}")
    messages = [result["message"] for report in reports for result in report["results"]]
    assert messages == [
        "not reviewed: for all: Pods (no): unknown",
        "for all: Create it again: containers requests GPUs; spec.containers",
        "for team-a: See node-1: containers requests GPUs; spec.containers",
    ]
