"""Claims that the pods of a PodGroup share: charged once, and explained as what they are (KEP-5729)."""

import json

import pytest

from policies.quota.ledger.status import charge_items
from testbed import manifests
from testbed.waiting import until
from tests.cluster.commands import command_output
from tests.cluster.quotas import counted, limited, status, summary
from webhook.cluster.resources import RESOURCES

ENTRY = {"name": "gpu", "resourceClaimTemplateName": "one"}


def member(team, name, group="ring", entry=ENTRY):
    """A pod that names the claim of its group."""
    document = manifests.pod(team, name, resourceClaims=[entry], schedulingGroup={"podGroupName": group})
    document["spec"]["containers"][0]["resources"] = {"claims": [{"name": entry["name"]}]}
    return document


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
    assert grouping.create(manifests.pod_group(team, "ring", ENTRY)).accepted
    for name in ("first", "second", "third"):
        assert grouping.create(member(team, name)).accepted
    assert summary(grouping, team) == "gpus 1/1"
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
    assert grouping.create(manifests.pod_group(team, "ring", ENTRY)).accepted
    if not grouping.makes_claims:
        pytest.skip("no kube-controller-manager runs here")
    until(lambda: claims_of(grouping, team), "the group gets its claim", 60)
    counted(grouping, team, "1")
    assert grouping.create(member(team, "second")).accepted


def test_group_that_does_not_fit_refuses_its_pods(grouping, team):
    assert grouping.create(manifests.pod(team, "other")).accepted
    assert grouping.create(manifests.pod_group(team, "ring", ENTRY)).accepted
    answer = grouping.create(member(team, "first"))
    assert answer.code == 403
    assert 'needs 1 GPU, 0 of 1 left in limit "gpus" ' in answer.message
    assert "; exceeded quota: gpu; " in answer.message
    assert not [name for name in claims_of(grouping, team) if name.startswith("ring-")]


@pytest.mark.parametrize("entry", [{**ENTRY, "name": "own"}, {**ENTRY, "resourceClaimTemplateName": "two"}], ids=str)
def test_entry_that_is_not_the_groups_is_charged_to_its_pod(grouping, team, entry):
    assert grouping.create(manifests.template(team, "two")).accepted
    assert grouping.create(manifests.pod_group(team, "ring", ENTRY)).accepted
    until(lambda: summary(grouping, team) == "gpus 1/1", "the claim of the group is charged")
    assert grouping.create(member(team, "first", entry=entry)).code == 403


def test_group_that_is_gone_is_charged_no_more(grouping, team):
    assert grouping.create(manifests.pod_group(team, "ring", ENTRY)).accepted
    assert grouping.create(member(team, "first")).accepted
    until(lambda: claims_of(grouping, team), "the group gets its claim")
    grouping.delete("Pod", "first", team)
    grouping.delete("PodGroup", "ring", team)
    # The garbage collector of Kubernetes looks again after up to a minute when kinds come and go, as in the tests before.
    until(lambda: claims_of(grouping, team) == [], "the claim of the group goes with it", 150)
    counted(grouping, team, "0")
    assert grouping.create(manifests.pod_group(team, "ring", ENTRY)).accepted
    assert grouping.create(member(team, "first")).accepted
    until(lambda: claims_of(grouping, team), "the group gets its claim")
    counted(grouping, team, "1")


def test_devices_of_a_group_are_held_by_its_pods(grouping, team, tmp_path):
    """What the scheduler of Kubernetes allocated."""
    if not grouping.schedules:
        pytest.skip("no kube-scheduler runs here")
    assert grouping.create(manifests.pod_group(team, "ring", ENTRY)).accepted
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
    if cluster.api.request("GET", "/apis/scheduling.k8s.io/v1alpha2").code != 404:
        pytest.skip("this cluster serves PodGroups")
    if cluster.minor < 36:
        pytest.skip("earlier versions do not know the field, and refuse it where validation is strict")
    team = limited(cluster, cluster.namespace(quota="enforced"), 1)
    assert cluster.create(manifests.template(team, "one")).accepted
    assert cluster.create(member(team, "first")).accepted
    assert "schedulingGroup" not in cluster.get("Pod", "first", team).object["spec"]
    assert cluster.create(member(team, "second")).code == 403
    assert charge_items(status(cluster, team)) == [] or summary(cluster, team) == "gpus 1/1"
    assert not [note for note in cluster.service.probe()["notes"] if "podgroups" in note]
    loud = [line for line in cluster.service.log().splitlines() if "podgroups" in line and '"info"' not in line.lower()]
    assert loud == []
