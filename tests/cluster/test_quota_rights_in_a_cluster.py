"""RBAC rights to see and write quotas; the sandbox does not enforce RBAC."""

import pytest

from testbed import manifests
from testbed.waiting import until

RBAC = "rbac.authorization.k8s.io"
OWNER = "gpu-admission-test-owner"


@pytest.fixture
def owned(real):
    """A namespace with a quota, whose owner is its `admin`."""
    if not real.makes_pods:
        pytest.skip("no kube-controller-manager runs here, which aggregates roles")
    team = real.namespace()
    binding = {
        "apiVersion": f"{RBAC}/v1",
        "kind": "RoleBinding",
        "metadata": {"name": "owner", "namespace": team},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"kind": "User", "apiGroup": RBAC, "name": OWNER}],
    }
    assert real.create(binding).accepted
    assert real.create(manifests.quota(team, 2)).accepted
    return team


def test_owner_of_a_namespace_sees_its_quota(real, owned):
    owner = real.by(OWNER)
    until(lambda: owner.get("GPUQuota", "gpu", owned).accepted, "the owner sees the quota")


@pytest.mark.parametrize("subresource", ["", "status"])
def test_owner_of_a_namespace_cannot_raise_its_quota(real, owned, subresource):
    more = {"spec": {"limits": [{"name": "gpus", "gpus": 8}]}, "status": {"limits": []}}
    assert real.by(OWNER).patch("GPUQuota", "gpu", owned, body=more, subresource=subresource).code == 403


def test_owner_of_a_namespace_cannot_delete_its_quota(real, owned):
    assert real.by(OWNER).delete("GPUQuota", "gpu", owned).code == 403
