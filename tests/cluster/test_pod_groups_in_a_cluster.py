"""Claims that the pods of a PodGroup share: charged once, and explained as what they are (KEP-5729)."""

import json
import os

import pytest

from policies.quota.ledger.status import charge_items
from testbed import manifests
from testbed.real_cluster import RealCluster
from testbed.sandbox_cluster import SandboxCluster
from testbed.waiting import until
from tests.cluster.commands import command_output
from tests.cluster.quotas import counted, limited, status, summary
from webhook.cluster.resources import RESOURCES

ENTRY = {"name": "gpu", "resourceClaimTemplateName": "one"}
GATES = ("GenericWorkload", "DRAWorkloadResourceClaims")
V1ALPHA2 = "scheduling.k8s.io/v1alpha2"
VERSIONS = "podgroups.scheduling.k8s.io in v1beta1, v1alpha3 or v1alpha2"


def member(team, name, group="ring", entry=ENTRY):
    """A pod that names the claim of its group."""
    document = manifests.pod(team, name, resourceClaims=[entry], schedulingGroup={"podGroupName": group})
    document["spec"]["containers"][0]["resources"] = {"claims": [{"name": entry["name"]}]}
    return document


def ring(cluster, team):
    """The PodGroup `ring`, in the version that is served."""
    return manifests.pod_group(team, "ring", ENTRY, cluster.api.served_resource("PodGroup").api_version)


def claims_of(cluster, team):
    return [each["metadata"]["name"] for each in cluster.list("ResourceClaim", team)]


def uuid_of(result, cluster):
    """The UUID of an allocated device, by the slices."""
    return next(
        device["attributes"]["uuid"]["string"]
        for each in cluster.list("ResourceSlice")
        if (each["spec"]["driver"], each["spec"]["pool"]["name"]) == (result["driver"], result["pool"])
        for device in each["spec"].get("devices", ())
        if device["name"] == result["device"]
    )


@pytest.fixture
def team(grouping):
    """A namespace in which there is room for one GPU, with a template of one."""
    team = limited(grouping, grouping.namespace(quota="enforced"), 1)
    assert grouping.create(manifests.template(team, "one")).accepted
    return team


def test_claim_of_a_group_is_charged_once(grouping, team):
    assert grouping.create(ring(grouping, team)).accepted
    for name in ("first", "second", "third"):
        assert grouping.create(member(team, name)).accepted
    assert summary(grouping, team) == "gpus 1 of 1"
    assert grouping.create(manifests.pod(team, "other")).code == 403
    if grouping.makes_claims:
        until(lambda: claims_of(grouping, team), "the group gets its claim")
    counted(grouping, team, "1")
    assert len(claims_of(grouping, team)) == 1
    assert grouping.create(member(team, "fourth")).accepted


def test_pods_that_come_before_their_group_do_not_keep_its_claim_away(grouping, team):
    """They are charged as if each had a claim of its own, until the group can be seen."""
    assert grouping.create(member(team, "first")).accepted
    assert grouping.create(member(team, "second")).code == 403
    assert grouping.create(ring(grouping, team)).accepted
    if not grouping.makes_claims:
        pytest.skip("no kube-controller-manager runs here")
    until(lambda: claims_of(grouping, team), "the group gets its claim", 60)
    counted(grouping, team, "1")
    assert grouping.create(member(team, "second")).accepted


def test_group_that_does_not_fit_refuses_its_pods(grouping, team):
    assert grouping.create(manifests.pod(team, "other")).accepted
    assert grouping.create(ring(grouping, team)).accepted
    answer = grouping.create(member(team, "first"))
    assert answer.code == 403
    assert 'needs 1 GPU, 0 of 1 left in limit "gpus" ' in answer.message
    assert "; exceeded quota: gpu; " in answer.message
    assert not [name for name in claims_of(grouping, team) if name.startswith("ring-")]


@pytest.mark.parametrize("entry", [{**ENTRY, "name": "own"}, {**ENTRY, "resourceClaimTemplateName": "two"}], ids=str)
def test_entry_that_is_not_the_groups_is_charged_to_its_pod(grouping, team, entry):
    assert grouping.create(manifests.template(team, "two")).accepted
    assert grouping.create(ring(grouping, team)).accepted
    until(lambda: summary(grouping, team) == "gpus 1 of 1", "the claim of the group is charged")
    assert grouping.create(member(team, "first", entry=entry)).code == 403


def test_group_that_is_gone_is_charged_no_more(grouping, team):
    assert grouping.create(ring(grouping, team)).accepted
    assert grouping.create(member(team, "first")).accepted
    until(lambda: claims_of(grouping, team), "the group gets its claim")
    grouping.delete("Pod", "first", team)
    grouping.delete("PodGroup", "ring", team)
    # The garbage collector of Kubernetes looks again after up to a minute when kinds come and go, as in the tests before.
    until(lambda: claims_of(grouping, team) == [], "the claim of the group goes with it", 150)
    counted(grouping, team, "0")
    assert grouping.create(ring(grouping, team)).accepted
    assert grouping.create(member(team, "first")).accepted
    until(lambda: claims_of(grouping, team), "the group gets its claim")
    counted(grouping, team, "1")


def test_devices_of_a_group_are_held_by_its_pods(grouping, team, tmp_path):
    """What the scheduler of Kubernetes allocated."""
    if not grouping.schedules:
        pytest.skip("no kube-scheduler runs here")
    assert grouping.create(ring(grouping, team)).accepted
    for name in ("first", "second"):
        assert grouping.create(member(team, name)).accepted
    for name in ("first", "second"):
        until(lambda name=name: grouping.get("Pod", name, team).object["spec"].get("nodeName"), "it gets a node", 60)
    (claim,) = grouping.list("ResourceClaim", team)
    assert [each["resource"] for each in claim["status"]["reservedFor"]] == ["podgroups"]
    counted(grouping, team, "1")
    (device,) = claim["status"]["allocation"]["devices"]["results"]
    for kind in ("Node", "DeviceClass", "ResourceSlice", "Namespace", "Pod", "PodGroup", "ResourceClaim"):
        resource = RESOURCES[kind]
        listed = {"apiVersion": resource.api_version, "kind": f"{kind}List", "items": grouping.list(kind)}
        (tmp_path / f"{kind}.json").write_text(json.dumps(listed))
    # Only this device: of nodes that are alike, an explanation names the devices of one.
    asked = manifests.claim(team, "asked", f"device.attributes['gpu.nvidia.com'].uuid == '{uuid_of(device, grouping)}'")
    said = command_output("explain", "--cluster", tmp_path, "-", stdin=json.dumps(asked))
    assert f"{device['device']} is in use by the pods of PodGroup {team}/ring" in " ".join(said.split()), said


def test_cluster_without_groups_is_no_trouble(cluster):
    """Its API server drops what pods say of their groups."""
    if cluster.api.request("GET", cluster.api.served_resource("PodGroup").path()).code != 404:
        pytest.skip("this cluster serves PodGroups")
    if cluster.minor < 36:
        pytest.skip("earlier versions do not know the field, and refuse it where validation is strict")
    team = limited(cluster, cluster.namespace(quota="enforced"), 1)
    assert cluster.create(manifests.template(team, "one")).accepted
    assert cluster.create(member(team, "first")).accepted
    assert "schedulingGroup" not in cluster.get("Pod", "first", team).object["spec"]
    assert cluster.create(member(team, "second")).code == 403
    assert charge_items(status(cluster, team)) == [] or summary(cluster, team) == "gpus 1 of 1"
    assert not [note for note in cluster.service.probe()["notes"] if "podgroups" in note]
    loud = [line for line in cluster.service.log().splitlines() if "podgroups" in line and '"info"' not in line.lower()]
    assert loud == []


@pytest.fixture
def upgraded(background, tmp_path):
    """A sandbox of 1.36 with the service, for a scenario that makes another version of it."""
    cluster = SandboxCluster(background, tmp_path, feature_gates=GATES)
    try:
        cluster.begin()
        yield cluster
    finally:
        cluster.close()


def notes_of(cluster):
    return [note for note in cluster.service.probe()["notes"] if "podgroups" in note and " served: " in note]


def test_claim_is_charged_once_after_an_upgrade_that_drops_the_version_of_its_group(upgraded):
    team = limited(upgraded, upgraded.namespace(quota="enforced"), 1)
    assert upgraded.create(manifests.template(team, "one")).accepted
    assert upgraded.create(ring(upgraded, team)).accepted
    assert upgraded.create(member(team, "first")).accepted
    upgraded.upgrade("1.37.0")
    assert upgraded.api.served_resource("PodGroup").version == "v1beta1"
    until(
        lambda: (
            "are read in scheduling.k8s.io/v1beta1: the API server no longer serves v1alpha2" in upgraded.service.log()
        ),
        "the service follows",
        60,
    )
    assert upgraded.create(member(team, "second")).accepted
    assert summary(upgraded, team) == "gpus 1 of 1"
    assert notes_of(upgraded) == []


@pytest.fixture
def fresh_with_groups(background, tmp_path):
    """A control plane of our own, whose API server can stop to serve PodGroups."""
    if os.environ.get("KUBECONFIG"):
        pytest.skip("the API server of somebody's cluster stays as it is")
    cluster = RealCluster.of(background, os.environ, tmp_path, feature_gates=GATES, apis=[V1ALPHA2])
    try:
        if cluster.minor < 36:
            pytest.skip("this version has no PodGroups")
        cluster.begin()
        yield cluster
    finally:
        cluster.close()


def test_groups_that_a_real_api_server_stops_to_serve_are_noted(fresh_with_groups):
    """Without the feature gate it serves none, and stored pods keep the names of theirs."""
    cluster = fresh_with_groups
    team = limited(cluster, cluster.namespace(quota="enforced"), 1)
    assert cluster.create(manifests.template(team, "one")).accepted
    assert cluster.create(ring(cluster, team)).accepted
    assert cluster.create(member(team, "first")).accepted
    assert (notes_of(cluster), summary(cluster, team)) == ([], "gpus 1 of 1")
    cluster.control_plane.restart_api_server()
    until(lambda: notes_of(cluster), "a note says that PodGroups are no longer served", 90)
    (note,) = notes_of(cluster)
    assert note.startswith(f"no longer served: {VERSIONS}, and 1 pod names one; ")
    assert cluster.create(member(team, "second")).code == 403
    cluster.control_plane.restart_api_server(GATES, [V1ALPHA2])
    until(lambda: not notes_of(cluster), "PodGroups are served again", 120)
    assert cluster.create(member(team, "third")).accepted
    assert summary(cluster, team) == "gpus 1 of 1"


def test_claim_of_a_group_that_is_served_in_no_known_version_is_charged_once(upgraded):
    team = limited(upgraded, upgraded.namespace(quota="enforced"), 1)
    assert upgraded.create(manifests.template(team, "one")).accepted
    assert upgraded.create(ring(upgraded, team)).accepted
    assert upgraded.create(member(team, "first")).accepted
    upgraded.upgrade("1.35.0")
    until(lambda: notes_of(upgraded), "a note says that PodGroups are no longer served", 90)
    (note,) = notes_of(upgraded)
    assert note.startswith(f"no longer served: {VERSIONS}, and 1 pod names one; ")
    for name in ("second", "third"):
        answer = upgraded.create(member(team, name))
        assert answer.accepted
        assert 'PodGroup "ring" is unknown' in " ".join(answer.warnings)
    assert summary(upgraded, team) == "gpus 1 of 1"
    assert upgraded.create(manifests.pod(team, "other")).code == 403
