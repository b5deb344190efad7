"""RBAC: what the program does is allowed, and little else."""

import pytest
import yaml

from policies.kubernetes.workloads import WORKLOAD_KINDS
from policies.settings import DEFAULTS
from tests.deploy.grants import SUBJECT, USER, grants_of
from webhook.cluster.kinds import watched
from webhook.cluster.resources import RESOURCES
from webhook.sandbox.records import Request
from webhook.server.delegated_gate import CLUSTER_ROLE
from webhook.server.explain_gate import PATH

SECRET, LEASE, CONFIGURATION = "gpu-admission-certificates", "gpu-admission", "gpu-admission"


@pytest.fixture(scope="module")
def granted(installed, deploy):
    """What our account may do."""
    binding = yaml.safe_load((deploy / "components" / "gpu-operator" / "role-binding.yaml").read_text())
    return grants_of([*installed, binding])


def allowed(granted, verb, kind, name="", namespace="", subresource=""):
    resource = RESOURCES[kind]
    request = Request(USER, verb, resource.group, resource.plural, subresource, namespace, name)
    return any(grant.covers(request) for grant in granted)


def test_bindings_are_for_our_account_only(installed):
    bindings = [each for each in installed if each["kind"] in ("RoleBinding", "ClusterRoleBinding")]
    assert [each["subjects"] for each in bindings] == [[SUBJECT]] * len(bindings)


def test_nothing_is_granted_by_wildcard(granted):
    for grant in granted:
        assert "*" not in f"{grant.verb}{grant.group}{grant.resource}"


def test_everything_that_is_watched_may_be(granted):
    for each in watched(["gpu-operator"]):
        for verb in ("list", "watch"):
            assert allowed(granted, verb, each.kind, each.name, each.namespace), each.words


def test_operator_is_read_in_its_namespace_only(granted):
    assert not allowed(granted, "list", "ConfigMap", namespace="team-a")
    assert not allowed(granted, "list", "ConfigMap")
    assert "gpu-operator" in DEFAULTS.configuration.operator_namespaces


def test_workloads_may_be_listed(granted):
    assert all(allowed(granted, "list", kind) for _, kind in WORKLOAD_KINDS)


CALLS = {
    "create a template": ("create", "ResourceClaimTemplate", "gpu-0123456789abcdef", "team-a"),
    "compare one that exists": ("get", "ResourceClaimTemplate", "gpu-0123456789abcdef", "team-a"),
    "mark one that nobody needs": ("patch", "ResourceClaimTemplate", "gpu-0123456789abcdef", "team-a"),
    "sweep it": ("delete", "ResourceClaimTemplate", "gpu-0123456789abcdef", "team-a"),
    "make the lease": ("create", "Lease", "", "gpu-admission"),
    "read the lease": ("get", "Lease", LEASE, "gpu-admission"),
    "renew the lease": ("update", "Lease", LEASE, "gpu-admission"),
    "make the secret": ("create", "Secret", "", "gpu-admission"),
    "read the secret": ("get", "Secret", SECRET, "gpu-admission"),
    "rotate": ("update", "Secret", SECRET, "gpu-admission"),
    "see the bundle of mutating webhooks": ("get", "MutatingWebhookConfiguration", CONFIGURATION, ""),
    "see the bundle of validating webhooks": ("get", "ValidatingWebhookConfiguration", CONFIGURATION, ""),
    "publish to mutating webhooks": ("patch", "MutatingWebhookConfiguration", CONFIGURATION, ""),
    "publish to validating webhooks": ("patch", "ValidatingWebhookConfiguration", CONFIGURATION, ""),
    "audit node pools": ("list", "NodePool", "", ""),
    "ask whose token it is": ("create", "TokenReview", "", ""),
    "ask who may have explanations": ("create", "SubjectAccessReview", "", ""),
    "read the settings": ("get", "GPUAdmissionPolicy", "default", ""),
}


@pytest.mark.parametrize(("verb", "kind", "name", "namespace"), CALLS.values(), ids=CALLS)
def test_call_is_allowed(granted, verb, kind, name, namespace):
    assert allowed(granted, verb, kind, name, namespace)


def test_status_of_the_settings_may_be_written_and_not_the_settings(granted):
    assert allowed(granted, "patch", "GPUAdmissionPolicy", "default", subresource="status")
    assert not allowed(granted, "patch", "GPUAdmissionPolicy", "default")


FORBIDDEN = {
    "another secret": ("get", "Secret", "other", "gpu-admission"),
    "all secrets": ("list", "Secret", "", "gpu-admission"),
    "a secret elsewhere": ("get", "Secret", SECRET, "team-a"),
    "another lease": ("update", "Lease", "other", "gpu-admission"),
    "other webhooks": ("patch", "MutatingWebhookConfiguration", "other", ""),
    "new webhooks": ("create", "ValidatingWebhookConfiguration", CONFIGURATION, ""),
    "delete webhooks": ("delete", "MutatingWebhookConfiguration", CONFIGURATION, ""),
    "claims": ("create", "ResourceClaim", "c", "team-a"),
    "pods": ("create", "Pod", "p", "team-a"),
    "delete pods": ("delete", "Pod", "p", "team-a"),
    "nodes": ("patch", "Node", "n", ""),
    "namespaces": ("patch", "Namespace", "team-a", ""),
    "roles": ("create", "ClusterRole", "r", ""),
}


@pytest.mark.parametrize(("verb", "kind", "name", "namespace"), FORBIDDEN.values(), ids=FORBIDDEN)
def test_call_that_nobody_makes_is_not(granted, verb, kind, name, namespace):
    assert not allowed(granted, verb, kind, name, namespace)


def test_every_rule_has_its_reason(deploy):
    """In a comment above it, or above the rules that it is one of."""
    for file in ("base/service/rbac.yaml", "base/api/explain.yaml", "overlays/default/certificates-rbac.yaml"):
        for document in (deploy / file).read_text().split("\n---\n"):
            if "\nrules:" in document:
                assert document.startswith("#") or "\nrules:\n#" in document, document[:80]


def test_right_to_ask_for_explanations_is_a_role_that_nobody_has(installed):
    (role,) = (each for each in installed if each["metadata"]["name"] == CLUSTER_ROLE)
    assert role["kind"] == "ClusterRole"
    assert role["rules"] == [{"nonResourceURLs": [PATH], "verbs": ["post"]}]
    bindings = [each["roleRef"] for each in installed if each["kind"] in ("ClusterRoleBinding", "RoleBinding")]
    assert CLUSTER_ROLE not in [each["name"] for each in bindings]


def test_flow_schema_is_for_our_account(one):
    (rule,) = one("FlowSchema")["spec"]["rules"]
    (subject,) = rule["subjects"]
    assert {"kind": subject["kind"], **subject["serviceAccount"]} == SUBJECT
