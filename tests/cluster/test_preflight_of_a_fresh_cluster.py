"""`gpu-admission preflight` of a real control plane without gpu-admission, and of one with policies of other engines."""

import json
import os
from importlib.metadata import version
from pathlib import Path

import pytest

from testbed import manifests
from testbed.commands import run_command
from testbed.control_plane import ControlPlane, kubeconfig
from testbed.real_cluster import RealCluster
from testbed.waiting import until
from webhook.cluster.resources import RESOURCES

RBAC = "rbac.authorization.k8s.io"
KYVERNO = ("kyverno.io", "v1", "clusterpolicies", "ClusterPolicy")
GATEKEEPER = ("constraints.gatekeeper.sh", "v1beta1", "k8srequiredlabels", "K8sRequiredLabels")


@pytest.fixture(scope="module")
def fresh(background, tmp_path_factory):
    """A control plane of our own, in which nothing is installed."""
    if not os.environ.get("KUBEBUILDER_ASSETS"):
        pytest.skip("a cluster of somebody's is not fresh")
    plane = ControlPlane(Path(os.environ["KUBEBUILDER_ASSETS"]))
    cluster = RealCluster.of_control_plane(background, plane, tmp_path_factory.mktemp("fresh"))
    try:
        until(lambda: cluster.get("ServiceAccount", "default", "default").accepted, "the controllers run", 60)
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def preflight(fresh, tmp_path):
    """Runs preflight of the manifests of this version; returns its JSON and exit code."""

    def preflight(file=fresh.kubeconfig):
        done = run_command("preflight", "--kubeconfig", file, "-o", "json", cwd=tmp_path, environment=os.environ)
        assert done.returncode in (0, 1, 4), done.stderr
        return json.loads(done.stdout), done.returncode

    return preflight


def whats(report, *statuses):
    return [(each["name"], each["what"]) for each in report["checks"] if each["status"] in statuses]


def test_fresh_cluster_accepts_every_object(preflight):
    report, code = preflight()
    assert whats(report, "failing", "unknown") == []
    assert whats(report, "warning") == [("network", "no network plugin is seen that enforces NetworkPolicies")]
    assert code == 0
    features = "the API server calls webhooks and policies, and serves dynamic resources"
    assert ("features", features) in whats(report, "ok")
    (accepted,) = (each for each in report["checks"] if each["name"] == "objects")
    assert accepted["what"] == "the dry run accepts 41 objects: 41 would be created"
    assert accepted["where"] == "10 of them tried in namespace default, because gpu-admission does not exist yet"
    assert report["step"] == {"verb": "install", "from": None, "to": version("gpu-admission")}
    assert report["conclusion"].startswith(
        f"installing {version('gpu-admission')} would work; new pods of 3 namespaces would be reviewed"
    )


@pytest.fixture
def team(fresh):
    labels = {"gpu-admission.io/dra": "enabled", "gpu-admission.io/quota": "enforced"}
    fresh.add_namespace("preflight-team", labels)
    yield "preflight-team"
    fresh.tidy()
    until(lambda: fresh.get("Namespace", "preflight-team").code == 404, "the namespace is gone")


def test_namespace_with_our_labels_is_warned_about(preflight, team):
    report, code = preflight()
    (warned,) = (each for each in report["checks"] if (each["name"], each["status"]) == ("namespaces", "warning"))
    assert warned["what"] == (
        "namespaces have labels of gpu-admission already: preflight-team converts; preflight-team enforces quotas"
    )
    assert (code, report["namespaces"]["converting"]) == (0, [team])


def test_policy_that_is_met_only_in_another_namespace_is_a_warning(fresh, preflight):
    group = "admissionregistration.k8s.io/v1"
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["services"]}
    policy = {
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "owners"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [
                {"expression": "has(object.metadata.labels.owner)", "message": "the label owner is required"}
            ],
        },
    }
    binding = {
        "apiVersion": group,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "owners"},
        "spec": {"policyName": "owners", "validationActions": ["Deny"]},
    }

    def named():
        return [each for each in preflight()[0]["checks"] if "owners" in each["what"]]

    assert fresh.create(policy).accepted
    assert fresh.create(binding).accepted
    try:
        found = until(named, "the policy is used")
    finally:
        fresh.delete("ValidatingAdmissionPolicyBinding", "owners")
        fresh.delete("ValidatingAdmissionPolicy", "owners")
        until(lambda: not named(), "the policy is no longer used")
    assert [(each["status"], each["what"]) for each in found] == [
        (
            "unknown",
            (
                "Service gpu-admission/gpu-admission and Service gpu-admission/gpu-admission-explain may be refused by "
                "ValidatingAdmissionPolicy owners"
            ),
        )
    ]
    assert found[0]["where"] == "tried in namespace default, because its own does not exist yet"


def definition(group, version, plural, kind):
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": plural, "kind": kind, "singular": kind.lower(), "listKind": f"{kind}List"}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "scope": "Cluster", "names": names, "versions": [served]},
    }


@pytest.fixture
def engines(fresh):
    """The CRDs of two engines, and a policy of each."""
    policies = {
        KYVERNO: {
            "rules": [
                {
                    "match": {"any": [{"resources": {"kinds": ["resource.k8s.io/*/ResourceClaimTemplate", "Pod"]}}]},
                    "validate": {
                        "failureAction": "Enforce",
                        "pattern": {"spec": {"containers": [{"=(nvidia.com/gpu)": 1}]}},
                    },
                }
            ]
        },
        GATEKEEPER: {"match": {"kinds": [{"apiGroups": ["coordination.k8s.io"], "kinds": ["Lease"]}]}},
    }
    for what, spec in policies.items():
        group, version, plural, kind = what
        assert fresh.create(definition(*what)).accepted
        document = {"apiVersion": f"{group}/{version}", "kind": kind, "metadata": {"name": "rules"}, "spec": spec}
        path = f"/apis/{group}/{version}/{plural}"
        until(
            lambda path=path, document=document: fresh.api.request("POST", path, {}, document).code in (201, 409),
            "served",
        )
    yield
    for group, _, plural, _ in policies:
        fresh.delete("CustomResourceDefinition", f"{plural}.{group}")


def test_policies_that_no_dry_run_evaluates_are_named(preflight, engines):
    report, code = preflight()
    assert code == 4
    found = {(each["status"], each["what"]) for each in report["checks"] if each["name"] == "policies"}
    assert found == {
        ("unknown", "it is unknown what ClusterPolicy rules would say about ResourceClaimTemplate"),
        ("unknown", "it is unknown what K8sRequiredLabels rules would say about Lease"),
        ("warning", "ClusterPolicy rules mentions GPUs or claims in pods"),
    }


def test_pods_that_run_are_counted(fresh, preflight, team):
    assert fresh.create(manifests.pod(team)).accepted
    report, _ = preflight()
    assert report["namespaces"]["entries"]["convert-pods"] == {"namespaces": 1, "pods": 1}
    assert report["namespaces"]["pods"] == 1


@pytest.fixture
def limited(fresh, tmp_path):
    """The kubeconfig of a ServiceAccount that may write Deployments and roles, and grant little."""
    team, name = "default", "preflight-limited"
    rules = [
        {"apiGroups": [RBAC], "resources": ["*"], "verbs": ["create", "get", "patch", "update"]},
        {
            "apiGroups": ["apps", ""],
            "resources": ["deployments", "namespaces"],
            "verbs": ["create", "get", "list", "patch"],
        },
    ]
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules}
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": "ServiceAccount", "name": "default", "namespace": team}],
    }
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
    path = RESOURCES["ServiceAccount"].path(team, "default", "token")
    token = fresh.api.request("POST", path, {}, asked).object["status"]["token"]
    file = tmp_path / "limited"
    file.write_text(kubeconfig(fresh.api.access.url, fresh.api.access.ca, token))
    assert fresh.create(role).accepted
    assert fresh.create(binding).accepted
    yield file
    fresh.delete("ClusterRoleBinding", name)
    fresh.delete("ClusterRole", name)


def test_missing_rights_of_the_user_are_named(preflight, limited):
    def answered():
        report, code = preflight(limited)
        failing = [each for each in report["checks"] if (each["name"], each["status"]) == ("rights", "failing")]
        return (report, code, failing) if failing and "deployments" not in failing[0]["why"] else None

    report, code, failing = until(answered, "RBAC knows the role")
    assert code == 1
    user = "user system:serviceaccount:default:default"
    assert failing[0]["what"].startswith(
        f"{user} may not apply ValidatingAdmissionPolicy admin-access.gpu-admission.io, "
    )
    assert "; create and get customresourcedefinitions.apiextensions.k8s.io; " in failing[0]["why"]
    assert ("components", "you may not list pods in all namespaces") in {
        (each["name"], each["why"]) for each in report["checks"] if each["status"] == "unknown"
    }


def test_roles_that_grant_more_than_the_user_has_are_named(preflight, limited):
    def answered():
        checks = preflight(limited)[0]["checks"]
        return [
            each for each in checks if each["why" if "why" in each else "what"].startswith("roles and bindings grant")
        ]

    (failing,) = until(answered, "RBAC knows the role")
    assert failing["what"] == (
        "user system:serviceaccount:default:default may not apply ClusterRole gpu-admission-admin-access, ClusterRole "
        "gpu-admission-quota-view, ClusterRole gpu-admission-quota-edit and 14 more"
    )
    assert failing["why"].startswith(
        "roles and bindings grant rights that the user does not have: set namespaceadminaccess.gpu-admission.io; create, "
        "delete, get, list, patch, update and watch gpuquotas.gpu-admission.io; "
    )
    assert failing["remedy"] == (
        "let a cluster administrator apply the manifests, or grant the verbs escalate and bind on roles and clusterroles"
    )
