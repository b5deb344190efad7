"""PodGroups in snapshots, whatever version the API server serves."""

import json

import pytest

from policies.fleet.pod_claims import pod_claims
from testbed import manifests
from tests.sandbox.faults import FaultySandbox
from webhook.cluster.manifests import ManifestsView

ENTRY = {"name": "gpu", "resourceClaimTemplateName": "one"}
MEMBER = manifests.pod("team-a", resourceClaims=[ENTRY], schedulingGroup={"podGroupName": "ring"})


@pytest.fixture
async def snapshot_of(command, tmp_path):
    """The lists in a snapshot of a cluster of this version, with the feature gates of PodGroups."""
    started = []

    async def snapshot_of(version, *objects):
        sandbox = FaultySandbox(seed=1, version=version, feature_gates=["GenericWorkload", "DRAWorkloadResourceClaims"])
        started.append(sandbox)
        for each in (manifests.namespace("team-a", {}), manifests.template("team-a", "one"), *objects):
            sandbox.create(each)
        await sandbox.start()
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(sandbox.kubeconfig())
        done = await command("snapshot", "--kubeconfig", kubeconfig, tmp_path / "snapshot")
        assert done.returncode == 0, done.stderr
        return [json.loads(file.read_text()) for file in (tmp_path / "snapshot").glob("*.json")]

    yield snapshot_of
    for sandbox in started:
        await sandbox.stop()


@pytest.mark.parametrize(("version", "served"), [("1.36.0", "v1alpha2"), ("1.37.0", "v1beta1")])
async def test_snapshot_has_the_groups_of_the_served_version(snapshot_of, version, served):
    ring = manifests.pod_group("team-a", "ring", ENTRY, f"scheduling.k8s.io/{served}")
    view = ManifestsView(await snapshot_of(version, ring))
    assert view.get("PodGroup", "ring", "team-a")["apiVersion"] == f"scheduling.k8s.io/{served}"
    (claim,) = pod_claims(MEMBER, "team-a", view)
    assert claim.group.name == "ring"


async def test_groups_that_are_not_served_are_unknown_in_a_snapshot(snapshot_of):
    """A pod may name one in a version that is not read; an empty list would say that it does not exist."""
    view = ManifestsView(await snapshot_of("1.35.0"))
    (claim,) = pod_claims(MEMBER, "team-a", view)
    assert claim.may_be_shared
