"""Encoding of the answer, field by field as the API server and kubectl read it."""

import base64
import re

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.admission.all_rules import rule_book
from policies.admission.webhooks import ENTRIES, Entry
from policies.kubernetes.objects import FieldPath
from policies.rules.decision import Decision, Finding, Severity
from policies.rules.request import Request
from webhook.server.admission_review import encode, encode_failure

MUTATING = ENTRIES["convert-pods"]
VALIDATING = ENTRIES["enforce-converted-pods"]
REQUEST = Request({"metadata": {"name": "train"}}, kind="Pod", name="train", uid="u-1")
POLICY = Request({}, group="nvidia.com", kind="ClusterPolicy", name="cluster-policy", uid="u-2")


def finding(rule="GA307", message="is wrong", remedy="make it right", path=("spec", "x"), severity=Severity.DENY):
    return Finding(rule_book().get(rule), severity, FieldPath(path), message, remedy)


def response(decision, entry=MUTATING, request=REQUEST):
    review = encode(decision, entry, request)
    assert (review["apiVersion"], review["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    return review["response"]


def status(*findings, request=REQUEST):
    return response(Decision(findings=findings), request=request)["status"]


def test_empty_answer_is_short():
    assert response(Decision()) == {"uid": "u-1", "allowed": True}


def test_patch_and_its_type_come_together():
    patch = ({"op": "add", "path": "/metadata/labels", "value": {"ü": "1"}},)
    reported = response(Decision(patch=patch))
    assert reported["patchType"] == "JSONPatch"
    assert orjson.loads(base64.b64decode(reported["patch"], validate=True)) == list(patch)


def test_validating_entry_returns_no_patch():
    reported = response(Decision(patch=({"op": "remove", "path": "/spec"},)), VALIDATING)
    assert reported == {"uid": "u-1", "allowed": True}


def test_refusal_returns_no_patch():
    reported = response(Decision(findings=(finding(),), patch=({"op": "remove", "path": "/spec"},)))
    assert reported.keys() == {"uid", "allowed", "status", "auditAnnotations"}


def test_policy_is_forbidden():
    assert status(finding()) == {
        "status": "Failure",
        "code": 403,
        "reason": "Forbidden",
        "message": "Make it right: x is wrong; spec.x [GA307]",
    }


def test_several_refusals_are_one_line_each():
    path = ("spec", "containers", 0, "resources", "limits", "nvidia.com/gpu")
    message = status(finding(), finding("GA302", path=path, remedy=""))["message"]
    assert message == (
        "Make it right: x is wrong; spec.x [GA307]\n"
        "nvidia.com/gpu is wrong; spec.containers[0].resources.limits[nvidia.com/gpu] [GA302]\n"
        "gpu-admission review shows all reasons"
    )


def test_only_denials_are_in_the_message():
    assert status(finding(), finding("GA310", severity=Severity.WARN))["message"].count("\n") == 0


def test_configuration_is_invalid_with_a_cause_for_each_field():
    first = finding("GA110", "is 1; sharing needs at least 2", "set replicas", ("spec", "devicePlugin"))
    second = finding("GA132", remedy="", path=("spec", "mig", "strategy"))
    assert status(first, second, request=POLICY) == {
        "status": "Failure",
        "code": 422,
        "reason": "Invalid",
        "message": "Set replicas: devicePlugin is 1; sharing needs at least 2; spec.devicePlugin [GA110]\n"
        "strategy is wrong; spec.mig.strategy [GA132]\n"
        "gpu-admission review shows all reasons",
        "details": {
            "group": "nvidia.com",
            "kind": "ClusterPolicy",
            "name": "cluster-policy",
            "causes": [
                {
                    "reason": "FieldValueInvalid",
                    "field": "spec.devicePlugin",
                    "message": "Set replicas: devicePlugin is 1; sharing needs at least 2 [GA110]",
                },
                {
                    "reason": "FieldValueInvalid",
                    "field": "spec.mig.strategy",
                    "message": "strategy is wrong [GA132]",
                },
                {
                    "reason": "FieldValueInvalid",
                    "field": "(all)",
                    "message": "gpu-admission review shows all reasons",
                },
            ],
        },
    }


def test_configuration_refused_by_policy_too_is_forbidden():
    assert status(finding("GA110"), finding("GA307"))["reason"] == "Forbidden"


def test_cause_without_a_field_names_the_object():
    assert status(finding("GA110", path=()))["details"]["causes"][0]["field"] == "(the whole object)"


def test_object_without_name_is_called_as_it_begins():
    request = Request({"metadata": {"generateName": "train-"}})
    assert status(finding("GA110"), request=request)["details"]["name"] == "train-"


def test_long_refusals_are_cut_and_counted():
    reported = status(*(finding(remedy="x" * 1000, path=("spec", f"f{number}")) for number in range(40)))
    lines = reported["message"].split("\n")
    assert lines[-1] == "and 7 more findings; put these right first"
    assert {len(line) for line in lines[:-1]} == {240}
    assert all(line.endswith(f"; spec.f{number} [GA307]") for number, line in enumerate(lines[:-1]))
    assert len(lines) == 34


def test_single_refusal_that_is_left_out_is_counted_in_the_singular():
    message = response(Decision(findings=(finding(),), left_out=1))["status"]["message"]
    assert message == "Make it right: x is wrong; spec.x [GA307]\nand 1 more finding; put these right first"


def test_long_refusals_of_configuration_have_as_many_causes_as_lines():
    reported = status(*(finding("GA110", remedy="x" * 1000) for _ in range(40)))
    assert len(reported["details"]["causes"]) == 34
    assert reported["details"]["causes"][-1] == {
        "reason": "FieldValueInvalid",
        "field": "(all)",
        "message": "and 7 more findings; put these right first",
    }


def test_values_bring_no_control_characters():
    message = status(finding(message='"a\nError from server\x1b[31m\u2028" is wrong'))["message"]
    assert message == 'Make it right: "a Error from server [31m " is wrong; spec.x [GA307]'


def test_warnings_are_reported_with_a_refusal():
    assert response(Decision(findings=(finding(),), remarks=("a", "b")))["warnings"] == ["a", "b"]


def test_annotations_are_reported():
    assert response(Decision(annotations={"findings": "GA302=deny"}))["auditAnnotations"] == {"findings": "GA302=deny"}


QUALIFIED_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


@given(st.dictionaries(st.text(), st.text()))
def test_annotation_keys_are_qualified_names(annotations):
    reported = response(Decision(annotations=annotations)).get("auditAnnotations", {})
    assert all(QUALIFIED_NAME.fullmatch(key) for key in reported)


def test_failure_of_a_fail_entry_refuses():
    reported = encode_failure(VALIDATING, REQUEST, "ran out of time", "1a2b3c4d")["response"]
    assert reported == {
        "uid": "u-1",
        "allowed": False,
        "status": {
            "status": "Failure",
            "code": 500,
            "reason": "InternalError",
            "message": "no decision: the webhook ran out of time; try again, and if that does not help, show your "
            "administrator the id 1a2b3c4d, which the webhook's log has the details under",
        },
        "auditAnnotations": {"failure": "1a2b3c4d"},
    }


@pytest.mark.parametrize("entry", [entry for entry in ENTRIES.values() if entry.failure_policy == "Ignore"])
@pytest.mark.parametrize("what", ["failed", "ran out of time"])
def test_failure_of_an_ignore_entry_passes_with_a_warning(entry, what):
    reported = encode_failure(entry, REQUEST, what, "1a2b3c4d")["response"]
    assert reported == {
        "uid": "u-1",
        "allowed": True,
        "warnings": [f"{entry.webhook} has not reviewed this: it {what}; the id in its log is 1a2b3c4d"],
        "auditAnnotations": {"failure": "1a2b3c4d"},
    }


def test_warning_of_a_failure_fits_for_longer_names():
    entry = Entry("x" * 60, {"claims": "Ignore"})
    reported = encode_failure(entry, REQUEST, "ran out of time", "1a2b3c4d")["response"]
    assert all(len(warning) <= 120 for warning in reported["warnings"])
