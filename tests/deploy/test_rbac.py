"""RBAC allows what the program does, and little else."""

import pytest

from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.deploy.grants import SUBJECT, USER, grants_of, listed_rights
from webhook.cli.explain.live_explanations import PROXY
from webhook.cluster.resources import RESOURCES, WORKLOAD_RESOURCES
from webhook.cluster.watched_kinds import watched_kinds
from webhook.controllers.replica_config import EXPLAIN_SERVICE_ROLE, NAMESPACE
from webhook.sandbox.kinds import Request
from webhook.server.explain_gate import CLUSTER_ROLE, MEMBER_ROLE, PATH

SECRET, LEASE, CONFIGURATION = "gpu-admission-certificates", "gpu-admission", "gpu-admission"


@pytest.fixture(scope="module")
def granted(installed, deploy):
    """What our account may do."""
    binding = libyaml.load((deploy / "components" / "gpu-operator" / "role-binding.yaml").read_text())
    return grants_of([*installed, binding])


def allowed(granted, verb, kind, name="", namespace="", subresource=""):
    resource = RESOURCES[kind] if isinstance(kind, str) else kind
    request = Request(USER, verb, resource.group, resource.plural, subresource, namespace, name)
    return any(grant.covers(request) for grant in granted)


def test_bindings_are_for_our_account_only(installed):
    bindings = [each for each in installed if each["kind"] in ("RoleBinding", "ClusterRoleBinding")]
    ours = [each for each in bindings if each["roleRef"]["name"] != EXPLAIN_SERVICE_ROLE]
    assert [each["subjects"] for each in ours] == [[SUBJECT]] * (len(bindings) - 1)


def test_users_reach_explanations_and_nothing_else_of_our_namespace(one):
    role, binding = (one(kind, EXPLAIN_SERVICE_ROLE) for kind in ("Role", "RoleBinding"))
    assert role["metadata"]["namespace"] == binding["metadata"]["namespace"] == NAMESPACE
    segment = PROXY.removeprefix(f"/api/v1/namespaces/{NAMESPACE}/services/").removesuffix("/proxy")
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["services/proxy"], "resourceNames": [segment], "verbs": ["create"]}
    ]
    assert [each["name"] for each in binding["subjects"]] == ["system:authenticated"]


def test_nothing_is_granted_by_wildcard(granted):
    for grant in granted:
        assert "*" not in f"{grant.verb}{grant.group}{grant.resource}"


def test_everything_that_is_watched_may_be(granted):
    for each in watched_kinds(["gpu-operator"]):
        for verb in ("list", "watch"):
            assert allowed(granted, verb, each.kind, each.name, each.namespace), each.words


def test_operator_is_read_in_its_namespace_only(granted):
    assert not allowed(granted, "list", "ConfigMap", namespace="team-a")
    assert not allowed(granted, "list", "ConfigMap")
    assert "gpu-operator" in DEFAULTS.configuration.operator_namespaces


def test_workloads_may_be_listed(granted):
    assert all(allowed(granted, "list", resource) for resource in WORKLOAD_RESOURCES.values())


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
    "read a ledger": ("get", "GPUQuota", "gpu", "team-a"),
    "look for the pod of a claim": ("get", "Pod", "train", "team-a"),
    "look for a claim that was charged": ("get", "ResourceClaim", "train-gpu", "team-a"),
}


@pytest.mark.parametrize(("verb", "kind", "name", "namespace"), CALLS.values(), ids=CALLS)
def test_call_is_allowed(granted, verb, kind, name, namespace):
    assert allowed(granted, verb, kind, name, namespace)


def test_status_of_the_settings_may_be_written_and_not_the_settings(granted):
    assert allowed(granted, "patch", "GPUAdmissionPolicy", "default", subresource="status")
    assert not allowed(granted, "patch", "GPUAdmissionPolicy", "default")


def test_status_of_quotas_may_be_written_and_not_the_quotas(granted):
    for verb in ("patch", "update"):
        assert allowed(granted, verb, "GPUQuota", "gpu", "team-a", subresource="status")
    assert not any(
        allowed(granted, verb, "GPUQuota", "gpu", "team-a") for verb in ("create", "update", "patch", "delete")
    )


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
def test_unused_right_is_not_granted(granted, verb, kind, name, namespace):
    assert not allowed(granted, verb, kind, name, namespace)


def test_every_rule_has_its_reason(deploy):
    """In a comment above it, or above the rules that it is one of."""
    files = ("base/service/rbac.yaml", "base/api/explain.yaml", "base/api/quota-roles.yaml")
    more = ("overlays/default/certificates-rbac.yaml", "components/admin-access/namespace-label.yaml")
    for file in (*files, *more):
        for document in (deploy / file).read_text().split("\n---\n"):
            if "\nrules:" in document:
                assert document.startswith("#") or "\nrules:\n#" in document, document[:80]


def test_security_page_lists_every_right_and_no_other(granted, deploy):
    component = libyaml.load_all((deploy / "components" / "explain-on-pods" / "rbac.yaml").read_text())
    rights = {each.right for each in (*granted, *grants_of(component))}
    assert listed_rights(0).keys() == rights


@pytest.mark.parametrize("number", [0, 1])
def test_security_page_gives_a_reason_for_every_right(number):
    assert not [right for right, reason in listed_rights(number).items() if len(reason.split()) < 4]


def test_role_for_explanations_of_everything_has_no_binding(installed, one):
    role = one("ClusterRole", CLUSTER_ROLE)
    assert role["rules"] == [{"nonResourceURLs": [PATH], "verbs": ["post"]}]
    bindings = [each["roleRef"] for each in installed if each["kind"] in ("ClusterRoleBinding", "RoleBinding")]
    assert CLUSTER_ROLE not in [each["name"] for each in bindings]


def test_viewers_of_a_namespace_get_explanations_in_it(one):
    role = one("ClusterRole", MEMBER_ROLE)
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert role["rules"] == [{"apiGroups": ["gpu-admission.io"], "resources": ["gpuexplanations"], "verbs": ["get"]}]


def test_viewers_of_a_namespace_see_its_quota(one):
    role = one("ClusterRole", "gpu-admission-quota-view")
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    (rule,) = role["rules"]
    assert (rule["resources"], rule["verbs"]) == (["gpuquotas"], ["get", "list", "watch"])


def test_role_for_quotas_has_no_binding(installed, one):
    """And no role of Kubernetes takes it up: owners of namespaces would raise their own."""
    role = one("ClusterRole", "gpu-admission-quota-edit")
    assert not any("aggregate-to" in label for label in role["metadata"]["labels"])
    assert {resource for rule in role["rules"] for resource in rule["resources"]} == {
        *("clustergpuquotas", "gpuquotagroups", "gpuquotas", "namespacequotas"),
    }
    bindings = [each["roleRef"] for each in installed if each["kind"] in ("ClusterRoleBinding", "RoleBinding")]
    assert role["metadata"]["name"] not in [each["name"] for each in bindings]


def test_flow_schemas_are_for_our_account(installed):
    for schema in (each for each in installed if each["kind"] == "FlowSchema"):
        (rule,) = schema["spec"]["rules"]
        (subject,) = rule["subjects"]
        assert {"kind": subject["kind"], **subject["serviceAccount"]} == SUBJECT


def flow_of(installed, verb, kind, namespace="", subresource=""):
    """The priority level that a call of our account goes to."""
    resource = RESOURCES[kind]
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    asked = (("apiGroups", resource.group), ("resources", plural), ("verbs", verb))
    schemas = sorted(
        (each for each in installed if each["kind"] == "FlowSchema"),
        key=lambda schema: schema["spec"]["matchingPrecedence"],
    )
    for schema in schemas:
        (rules,) = schema["spec"]["rules"]
        here = [
            rule
            for rule in rules["resourceRules"]
            if ({namespace, "*"} & {*rule["namespaces"]} if namespace else rule.get("clusterScope"))
        ]
        if any(all({value, "*"} & {*rule[field]} for field, value in asked) for rule in here):
            return schema["spec"]["priorityLevelConfiguration"]["name"]
    return None


AWAITED = {
    "read a ledger": ("get", "GPUQuota", "team-a", ""),
    "charge": ("update", "GPUQuota", "team-a", "status"),
    "charge a team": ("update", "GPUQuotaGroup", "", "status"),
    "create a template": ("create", "ResourceClaimTemplate", "team-a", ""),
    "compare a template": ("get", "ResourceClaimTemplate", "team-a", ""),
    "look for a pod": ("get", "Pod", "team-a", ""),
    "look for a claim": ("get", "ResourceClaim", "team-a", ""),
    "look for the claims beside it": ("list", "ResourceClaim", "team-a", ""),
    "lead": ("update", "Lease", "gpu-admission", ""),
}


@pytest.mark.parametrize("call", AWAITED.values(), ids=AWAITED)
def test_calls_that_pods_wait_for_have_seats_of_their_own(installed, call):
    """The seats of workload-high may all be taken by pods that wait for us."""
    assert flow_of(installed, *call) == "gpu-admission"


@pytest.mark.parametrize("verb", ["list", "watch"])
def test_caches_do_not_take_the_seats_of_answers(installed, verb):
    assert {flow_of(installed, verb, kind) for kind in ("Pod", "GPUQuota", "ResourceClaim")} == {"workload-high"}


def test_seats_of_answers_are_not_lent(one):
    assert one("PriorityLevelConfiguration")["spec"]["limited"]["lendablePercent"] == 0
