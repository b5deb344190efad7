"""Admin access: the namespace label that allows it, and the exact requests that use it."""

import pytest

from policies.rules.decision import Severity
from policies.rules.settings import GPUAdmissionPolicy
from policies.rules.settings.choices import RuleOverride

NAMESPACE = "\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: team-a}"
LABEL = 'resource.kubernetes.io/admin-access: "true"'


def claim(request, namespace=NAMESPACE):
    return (
        "apiVersion: resource.k8s.io/v1\nkind: ResourceClaim\nmetadata: {name: all, namespace: team-a}\n"
        f"spec: {{devices: {{requests: [{{name: all, {request}}}]}}}}{namespace}"
    )


def test_exact_request_needs_the_label_of_its_namespace(findings_of):
    assert findings_of("GA220", claim("exactly: {deviceClassName: gpu.nvidia.com, adminAccess: true}")) == [
        (
            f'spec.devices.requests[0].exactly.adminAccess: needs the label {LABEL} on namespace "team-a", which does not '
            f"have it; remove adminAccess, or ask an administrator to label the namespace {LABEL}"
        )
    ]


ALLOWED = f"{NAMESPACE[:-1]}, labels: {{{LABEL}}}}}"
REQUESTED = (
    "lets the claim's pods use devices that other pods hold; remove adminAccess, unless the claim's pods monitor or maintain "
    "devices"
)
EXACT = "exactly: {deviceClassName: gpu.nvidia.com, adminAccess: true}"


@pytest.mark.parametrize("namespace", [ALLOWED, ""], ids=["allowed", "unknown"])
def test_request_that_is_not_refused_is_reported(findings_of, namespace):
    text = claim(EXACT, namespace)
    assert findings_of("GA220", text) == []
    assert findings_of("GA231", text) == [f"spec.devices.requests[0].exactly.adminAccess: {REQUESTED}"]


def test_request_that_is_refused_is_reported_once(findings_of):
    assert findings_of("GA231", claim(EXACT)) == []


def test_request_of_the_oldest_version_is_reported(findings_of):
    text = claim("deviceClassName: gpu.nvidia.com, adminAccess: true", "").replace("k8s.io/v1\n", "k8s.io/v1beta1\n")
    assert findings_of("GA231", text) == [f"spec.devices.requests[0].adminAccess: {REQUESTED}"]


def test_request_for_no_admin_access_is_not_reported(findings_of):
    assert findings_of("GA231", claim("exactly: {deviceClassName: gpu.nvidia.com, adminAccess: false}", "")) == []


def test_request_that_the_api_server_drops_is_not_reported(findings_of):
    version = "\n---\nserverVersion: {gitVersion: v1.33.0}"
    assert findings_of("GA231", claim(EXACT, version)) == []


def namespace(value, name="team-a"):
    return (
        f"apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {{{LABEL.partition(':')[0]}: {value}}}}}"
    )


def test_label_is_reported_and_rights_are_unknown_offline(findings_of):
    assert findings_of("GA232", namespace('"true"')) == [
        (
            'metadata.labels[resource.kubernetes.io/admin-access]: lets everyone who may create claims in namespace "team-a" use '
            'devices that other pods hold; setting it requires the verb "set" on namespaceadminaccess.gpu-admission.io, and '
            "whether the user who applies this has it cannot be known offline; remove the label, unless only administrators may "
            "create claims, templates and pods in this namespace"
        )
    ]


@pytest.mark.parametrize(("value", "printed"), [("True", "true"), ('"True"', '"True"'), ('"1"', '"1"'), ("{}", "{}")])
def test_label_that_allows_nothing_is_reported(findings_of, value, printed):
    assert findings_of("GA232", namespace(value)) == [
        (
            f'metadata.labels[resource.kubernetes.io/admin-access]: is {printed}, which allows nothing: only "true" does, as a '
            'string; write "true" in quotes, or remove the label'
        )
    ]


def test_label_that_does_not_change_is_not_reported(findings_of):
    unchanged, changed = namespace('"true"'), namespace('"false"')
    assert findings_of("GA232", f"{unchanged}\n--- # before\n{unchanged}") == []
    assert findings_of("GA232", f"{unchanged}\n--- # before\n{changed}") != []


def test_label_is_only_noted_on_namespaces_that_hand_out_gpus(examined):
    (finding,) = examined(namespace('"true"', "gpu-operator"))
    assert (finding.rule.id, finding.severity) == ("GA232", Severity.AUDIT)


def test_settings_change_the_severity_for_the_namespace_that_is_labelled(examined):
    settings = GPUAdmissionPolicy(rules=(RuleOverride("GA232", Severity.DENY, ("team-*",)),))
    assert [finding.severity for finding in examined(namespace('"true"'), settings=settings)] == [Severity.DENY]
    assert [finding.severity for finding in examined(namespace('"true"', "lab"), settings=settings)] == [Severity.WARN]


def test_alternative_has_no_such_field(examined):
    found = examined(claim("firstAvailable: [{name: a, deviceClassName: gpu.nvidia.com, adminAccess: true}]"))
    assert [finding.rule.id for finding in found] == ["GA201"]
