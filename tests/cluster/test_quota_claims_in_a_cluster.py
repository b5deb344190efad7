"""Claims are charged once, with their pods or by themselves."""

import pytest

from policies.quota.ledger.status import charge_items
from testbed import manifests
from testbed.waiting import until
from tests.cluster.bound_pods import bound, ours
from tests.cluster.quotas import ANY_GPU, amounts, counted, limited, status, summary

TOLERATION = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


def pod_with(team, name="train", **claim):
    """A pod whose GPUs come by one claim."""
    document = manifests.pod(team, name, resourceClaims=[{"name": "gpu", **claim}])
    document["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    return document


def test_claim_that_is_made_for_a_pod_is_not_charged_again(cluster):
    """There is room for one only."""
    team = limited(cluster, cluster.namespace(quota="enforced"), 1)
    assert cluster.create(manifests.template(team, "one")).accepted
    assert cluster.create(pod_with(team, resourceClaimTemplateName="one")).accepted
    assert summary(cluster, team) == "gpus 1 of 1"
    assert cluster.create(manifests.pod(team, "second")).code == 403
    if not cluster.makes_claims:
        pytest.skip("no kube-controller-manager runs here")
    until(lambda: cluster.list("ResourceClaim", team), "the pod gets its claim")
    counted(cluster, team, "1")


def test_converted_pod_is_charged_once(cluster):
    team = limited(cluster, cluster.namespace(dra="enabled", quota="enforced"), 2)
    pod = cluster.create(manifests.pod(team, gpus=2)).object
    assert "resourceClaims" in pod["spec"]
    assert summary(cluster, team) == "gpus 2 of 2"
    if not cluster.makes_claims:
        pytest.skip("no kube-controller-manager runs here")
    until(lambda: cluster.list("ResourceClaim", team), "the pod gets its claim")
    counted(cluster, team, "2")
    assert cluster.create(manifests.pod(team, "second")).code == 403


def test_claim_of_the_scheduler_is_not_charged_again(real):
    """Made for a pod that asks for an extended resource of a DeviceClass."""
    if real.minor < 36:
        pytest.skip("needs Kubernetes 1.36")
    team = limited(real, real.namespace(quota="enforced"), 1)
    # The webhook that adds the toleration fails open, and without the toleration no node fits.
    assert real.create(manifests.pod(team, **ours(tolerations=[TOLERATION]))).accepted
    bound(real, team)
    assert len(real.list("ResourceClaim", team)) == 1
    counted(real, team, "1")


def test_claim_of_a_user_is_charged(cluster):
    team = limited(cluster, cluster.namespace(quota="enforced"), 1)
    assert cluster.create(manifests.claim(team, "first", ANY_GPU)).accepted
    assert summary(cluster, team) == "gpus 1 of 1"
    answer = cluster.create(manifests.claim(team, "second", ANY_GPU))
    assert answer.code == 403
    assert 'needs 1 GPU, 0 of 1 left in limit "gpus" ' in answer.message
    assert "; exceeded quota: gpu; " in answer.message
    counted(cluster, team, "1")


def test_pod_that_names_a_claim_costs_nothing(cluster):
    team = limited(cluster, cluster.namespace(quota="enforced"), 1)
    assert cluster.create(manifests.claim(team, "shared", ANY_GPU)).accepted
    for name in ("first", "second"):
        assert cluster.create(pod_with(team, name, resourceClaimName="shared")).accepted
    counted(cluster, team, "1")


def test_dry_run_is_judged_and_charges_nothing(cluster):
    """What had been charged and never stored would stay for two minutes."""
    team = limited(cluster, cluster.namespace(quota="enforced"), 1)
    for _ in range(3):
        assert cluster.create(manifests.pod(team), dry_run=True).accepted
    assert cluster.create(manifests.pod(team, gpus=2), dry_run=True).code == 403
    assert (amounts(cluster, team), charge_items(status(cluster, team))) == (("0", "0"), [])
