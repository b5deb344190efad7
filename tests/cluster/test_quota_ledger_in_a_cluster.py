"""The status of a GPUQuota, which is a ledger: what the API server keeps apart, and who writes over whom."""

import time

import pytest

from testbed import manifests
from testbed.waiting import until
from tests.controllers.caches import Caches
from webhook.cluster.client import APIClient
from webhook.cluster.resources import RESOURCES
from webhook.controllers.quota_count import Lists

TOLD = {"observedGeneration": 1, "summary": "told by the test", "limits": [], "openCharges": ""}


@pytest.fixture
def team(cluster):
    team = cluster.namespace()
    assert cluster.create(manifests.quota(team, 2)).accepted
    return team


def stored(cluster, team):
    return cluster.get("GPUQuota", "gpu", team).object


def written(cluster, team, change, subresource=""):
    """A PUT of what is stored with a change; made again where the service writes at the same moment."""

    def write():
        answer = cluster.api.replace(change(stored(cluster, team)), subresource)
        return answer if answer.code != 409 else None

    return until(write, "the quota is written")


def test_write_to_the_status_changes_nothing_else(cluster, team):
    before = stored(cluster, team)

    def change(quota):
        metadata = {**quota["metadata"], "labels": {"a": "b"}, "annotations": {"a": "b"}}
        return {**quota, "metadata": metadata, "spec": manifests.quota(team, 8)["spec"], "status": TOLD}

    after = written(cluster, team, change, "status").object
    assert (after["spec"], after["status"]["summary"]) == (before["spec"], TOLD["summary"])
    assert after["metadata"]["generation"] == before["metadata"]["generation"] == 1
    assert after["metadata"]["resourceVersion"] != before["metadata"]["resourceVersion"]
    assert not {"labels", "annotations"} & after["metadata"].keys()


def test_write_to_the_quota_leaves_the_status_alone(cluster, team):
    after = written(
        cluster, team, lambda quota: {**quota, "spec": manifests.quota(team, 8)["spec"], "status": TOLD}
    ).object
    assert after["metadata"]["generation"] == 2
    assert after.get("status", {}).get("summary") != TOLD["summary"]


def test_status_cannot_be_brought_along(cluster):
    quota = cluster.create({**manifests.quota(cluster.namespace(), 2), "status": TOLD}).object
    assert "status" not in quota


def test_labels_make_no_new_generation(cluster, team):
    labelled = {"metadata": {"labels": {"a": "b"}}}
    after = until(lambda: patched(cluster, team, labelled), "the quota is labelled")
    assert after["metadata"]["generation"] == 1


def patched(cluster, team, body):
    answer = cluster.patch("GPUQuota", "gpu", team, body=body)
    return answer.object if answer.code != 409 else None


def test_older_version_is_not_written(cluster, team):
    old = stored(cluster, team)
    written(cluster, team, lambda quota: {**quota, "status": TOLD}, "status")
    answer = cluster.api.replace({**old, "status": {**TOLD, "summary": "older"}}, "status")
    assert (answer.code, answer.body["reason"]) == (409, "Conflict")
    assert answer.message == (
        'Operation cannot be fulfilled on gpuquotas.gpu-admission.io "gpu": the object has been modified; please apply '
        "your changes to the latest version and try again"
    )


def test_status_without_a_version_is_not_written(cluster, team):
    old = stored(cluster, team)
    metadata = {field: value for field, value in old["metadata"].items() if field != "resourceVersion"}
    assert cluster.api.replace({**old, "metadata": metadata, "status": TOLD}, "status").code == 422


def test_ledger_of_a_quota_that_was_made_anew_is_not_written(cluster, team):
    """Its charges are none of the new one's."""
    old = stored(cluster, team)
    assert cluster.delete("GPUQuota", "gpu", team).accepted
    assert cluster.create(manifests.quota(team, 2)).accepted
    assert cluster.api.replace({**old, "status": TOLD}, "status").code == 409


def test_status_that_the_schema_does_not_take_is_refused(cluster, team):
    wrong = {**TOLD, "limits": [{"name": "gpus"}]}
    assert written(cluster, team, lambda quota: {**quota, "status": wrong}, "status").code == 422


def test_leader_reads_what_was_deleted_before_its_caches_were_listed(cluster, background):
    """The API server still knows a deletion, and sends it to a watch that begins before it."""
    path = RESOURCES["Pod"].path(namespace := cluster.namespace())
    waiting = manifests.pod(namespace, "short", schedulingGates=[{"name": "example.com/wait"}])

    async def story():
        client = await APIClient.connect(str(cluster.kubeconfig), environ={})
        try:
            before, after = (Caches(client, ("Pod", "ResourceClaim"), time.monotonic) for _ in range(2))
            last, new = (
                Lists(client, each.view, lambda each=each: each.stores, time.monotonic) for each in (before, after)
            )
            await before.see()
            uid = (await client.post(path, waiting))["metadata"]["uid"]
            await client.delete(f"{path}/short", {"gracePeriodSeconds": 0})
            await after.see()
            was_known = uid in after.stores["Pod"].gone
            await new.note_deletions(last.versions())
            return was_known, uid in after.stores["Pod"].gone
        finally:
            await client.close()

    assert background.run(story()) == (False, True)
