"""A tenant's Deployment or Subscription that looks like the GPU Operator's loosens nothing."""

from __future__ import annotations

import pytest

from policies.admission import review
from policies.rules.request import Request, UserInfo
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

TENANT = "team-a"
IMAGE = "nvcr.io/nvidia/gpu-operator:v26.3.0"
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "gpu-operator", "namespace": TENANT, "labels": {"app": "gpu-operator"}},
    "spec": {"template": {"spec": {"containers": [{"name": "gpu-operator", "image": IMAGE}]}}},
}
SUBSCRIPTION = {
    "apiVersion": "operators.coreos.com/v1alpha1",
    "kind": "Subscription",
    "metadata": {"name": "gpu-operator", "namespace": TENANT},
    "spec": {"name": "gpu-operator-certified"},
}
LOOK_ALIKES = [DEPLOYMENT, SUBSCRIPTION]
POLICY = {
    "apiVersion": "nvidia.com/v1",
    "kind": "ClusterPolicy",
    "metadata": {"name": "cluster-policy"},
    "spec": {"devicePlugin": {"config": {"name": "ours", "default": "any"}}},
}
USED = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "ours", "namespace": "gpu-operator"},
    "data": {"any": "version: v1\n"},
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "gpu-1", "labels": {"nvidia.com/mig.config": "1g.10gb-2,3g.40gb-1"}},
}
ADMIN = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": TENANT, "labels": {"resource.kubernetes.io/admin-access": "true"}},
}
THIEF = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "thief", "namespace": TENANT},
    "spec": {"containers": [{"name": "a", "image": "a", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]},
}
USER = UserInfo(f"system:serviceaccount:{TENANT}:gpu-operator")


@pytest.fixture(params=["stored", "reviewed"])
def view(request):
    """A cluster with objects, and the tenant's among the stored ones or among those under review."""

    def view(*objects, look_alikes=LOOK_ALIKES):
        if request.param == "stored":
            return ManifestsView([*objects, *look_alikes])
        return ManifestsView(objects, look_alikes)

    return view


def answer(document, view, operation="CREATE", **fields):
    metadata = document["metadata"]
    given = {"object": document} if operation != "DELETE" else {"object": None, "old_object": document}
    return review(
        Request(
            **given,
            operation=operation,
            group=document["apiVersion"].rpartition("/")[0],
            kind=document["kind"],
            name=metadata["name"],
            namespace=metadata.get("namespace", ""),
            **fields,
        ),
        view,
        DEFAULTS,
    )


def found(decision):
    return [(each.rule.id, each.severity, each.message) for each in decision.findings]


def test_account_beside_it_is_refused_like_everyone(view):
    assert found(answer(NODE, view(), user=USER)) == found(answer(NODE, view(look_alikes=[]), user=USER))
    assert not answer(NODE, view(), user=USER).allowed


def test_admin_access_of_its_namespace_is_no_more_than_of_any(view):
    expected = found(answer(ADMIN, view(look_alikes=[])))
    assert [rule for rule, _, _ in expected] == ["GA232"]
    assert found(answer(ADMIN, view())) == expected


def test_its_namespace_is_not_exempt(view):
    expected = found(answer(THIEF, view(look_alikes=[])))
    assert [rule for rule, _, _ in expected] == ["GA601"]
    assert found(answer(THIEF, view())) == expected


def test_config_map_of_the_operator_is_still_in_use(view):
    denied = answer(USED, view(POLICY, USED), "DELETE").denials
    assert [each.rule.id for each in denied] == ["GA107"]


def test_config_map_beside_it_is_not_found_where_the_operator_is_known(view):
    stored = {**POLICY, "status": {"namespace": "gpu-operator"}}
    theirs = {**USED, "metadata": {"name": "ours", "namespace": TENANT}}
    denied = answer(POLICY, view(stored, theirs)).denials
    assert "GA130" in [each.rule.id for each in denied]
