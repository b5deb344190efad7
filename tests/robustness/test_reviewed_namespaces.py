"""Namespaces that the label policy refuses in a cluster are refused offline, with the same message."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from policies.admission import review
from policies.rules.decision import Severity
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.deploy.match_conditions import holds
from tests.findings import plain_text
from webhook.cluster.manifests import ManifestsView

POLICY = Path(__file__).parents[2] / "deploy" / "base" / "api" / "namespace-labels.yaml"
DRA, STRATEGY, QUOTA = "gpu-admission.io/dra", "gpu-admission.io/dra-strategy", "gpu-admission.io/quota"


def namespace(labels, name="team-a"):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


def findings(new, old=None, **request):
    operation = "CREATE" if old is None else "UPDATE"
    asked = Request(new, old_object=old, operation=operation, kind="Namespace", name=new["metadata"]["name"], **request)
    return review(asked, ManifestsView(), DEFAULTS).findings


def refusals(*arguments):
    return [each for each in findings(*arguments) if each.severity is Severity.DENY]


def broken(new, old=None):
    """The validations of `deploy/` that a namespace breaks, those about rights left out."""
    validations = next(iter(libyaml.load_all(POLICY.read_text())))["spec"]["validations"]
    return [
        each
        for each in validations
        if "authorizer" not in each["expression"] and not holds(each["expression"], new, old)
    ]


def says(validation, finding, new):
    """Whether a validation of the policy has the words of a finding."""
    if "messageExpression" in validation:
        return holds(f"({validation['messageExpression']}) == {json.dumps(plain_text(finding))}", new, None)
    return validation["message"] == finding.message


LABELLED = [
    ({DRA: "on"}, "team-a"),
    ({DRA: "Enabled", STRATEGY: "claims"}, "team-a"),
    ({QUOTA: "true"}, "team-a"),
    ({DRA: "enabled"}, "gpu-operator"),
    ({DRA: "preview", QUOTA: "enforced"}, "kube-system"),
    ({QUOTA: "enforced"}, "gpu-admission"),
    ({DRA: "disabled"}, "nvidia-dra-driver-gpu"),
    ({DRA: "enabled", STRATEGY: "auto", QUOTA: "enforced"}, "team-a"),
]


@pytest.mark.parametrize(("labels", "name"), LABELLED)
def test_labels_are_refused_as_the_label_policy_refuses_them(labels, name):
    new = namespace(labels, name)
    found, validations = refusals(new), broken(new)
    assert len(found) == len(validations)
    assert all(any(says(validation, finding, new) for finding in found) for validation in validations)


@pytest.mark.parametrize(("labels", "name"), LABELLED)
def test_labels_that_do_not_change_are_allowed(labels, name):
    assert findings(namespace(labels, name), namespace({**labels, "team": "b"}, name)) == ()


@pytest.mark.parametrize(("labels", "name"), LABELLED)
def test_labels_that_are_removed_are_allowed(labels, name):
    assert findings(namespace({"team": "b"}, name), namespace(labels, name)) == ()


def test_status_of_a_namespace_is_not_reviewed():
    assert findings(namespace({DRA: "on"}), namespace({}), subresource="status") == ()


def test_rights_are_noted_as_not_checked():
    found = findings(namespace({DRA: "enabled", QUOTA: "enforced"}))
    assert [(each.rule.id, each.severity, each.message) for each in found] == [
        (
            "GA706",
            Severity.AUDIT,
            'setting it requires the verb "set" on namespaceoptins.gpu-admission.io, which was not checked',
        ),
        (
            "GA706",
            Severity.AUDIT,
            'setting it requires the verb "set" on namespacequotas.gpu-admission.io, which was not checked',
        ),
    ]


def test_audit_of_stored_namespaces_does_not_speak_of_rights():
    assert findings(namespace({DRA: "enabled"}), entry="configuration") == ()


def test_value_of_admin_access_that_allows_nothing_is_warned_about():
    (found,) = findings(namespace({"resource.kubernetes.io/admin-access": "yes"}))
    assert (found.rule.id, found.severity) == ("GA232", Severity.WARN)
