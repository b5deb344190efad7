"""A tenant's service account with the operator's name gains no rights."""

from __future__ import annotations

import pytest

from policies.admission import review
from policies.rules.request import Request, UserInfo
from policies.rules.settings import DEFAULTS, Configuration, GPUAdmissionPolicy
from webhook.cluster.manifests import ManifestsView

NAMES = ("gpu-operator", "nvidia-gpu-operator", "nvidia-mig-manager", "node-feature-discovery", "nfd-master")
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "gpu-1", "labels": {"nvidia.com/mig.config": "1g.10gb-2,3g.40gb-1"}},
}
QUOTA = {
    "apiVersion": "gpu-admission.io/v1alpha1",
    "kind": "GPUQuota",
    "metadata": {"name": "other", "namespace": "team-a"},
    "spec": {"limits": []},
}
ELSEWHERE = GPUAdmissionPolicy(configuration=Configuration(operator_namespaces=("gpus",)))


def answered(document, account, namespace, chosen=DEFAULTS, group=""):
    request = Request(
        document,
        group=group,
        kind=document["kind"],
        namespace=document["metadata"].get("namespace", ""),
        user=UserInfo(f"system:serviceaccount:{namespace}:{account}"),
    )
    return review(request, ManifestsView([]), chosen)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("namespace", ["team-a", "gpu-operator-2", "gpu-operator.team-a"])
def test_account_of_a_tenant_is_refused_like_everyone(name, namespace):
    assert not answered(NODE, name, namespace).allowed
    assert not answered(QUOTA, name, namespace, group="gpu-admission.io").allowed


def test_accounts_of_the_operator_are_warned():
    answer = answered(NODE, "nvidia-vgpu-device-manager", "gpu-operator")
    assert answer.allowed
    assert [finding.rule.id for finding in answer.findings] == ["GA154"]


def test_namespaces_of_the_operator_are_those_of_the_settings():
    assert answered(NODE, "gpu-operator", "gpus", ELSEWHERE).allowed
    assert not answered(NODE, "gpu-operator", "gpu-operator", ELSEWHERE).allowed
