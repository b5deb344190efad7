"""The tasks of the leading replica."""

import pytest

from testbed import manifests
from testbed.waiting import until


def made_for_a_pod(cluster):
    """The template of a converted pod that waits for a node: a pod that has one needs no template any more."""
    team = cluster.namespace(dra="enabled")
    pod = cluster.create(manifests.pod(team, gpus=8)).object
    (claim,) = pod["spec"]["resourceClaims"]
    return cluster.get("ResourceClaimTemplate", claim["resourceClaimTemplateName"], team).object


def deleted(cluster, template):
    metadata = template["metadata"]
    assert cluster.delete("ResourceClaimTemplate", metadata["name"], metadata["namespace"]).accepted


def made_again(cluster, template, seconds):
    metadata = template["metadata"]

    def look():
        found = cluster.get("ResourceClaimTemplate", metadata["name"], metadata["namespace"])
        return found.accepted and found.object

    again = until(look, "the template is made again", seconds)
    assert again["spec"] == template["spec"]
    assert again["metadata"]["uid"] != metadata["uid"]


def test_template_that_was_deleted_before_the_start_is_created_again(cluster):
    template = made_for_a_pod(cluster)
    cluster.service.stop()
    deleted(cluster, template)
    cluster.service.start()
    made_again(cluster, template, 20)


def test_leader_creates_a_deleted_template_again(real):
    """The leader looks every half a minute, for which the sandbox's share of the suite has no time."""
    template = made_for_a_pod(real)
    deleted(real, template)
    made_again(real, template, 45)


def test_one_replica_leads(cluster):
    lease = ("Lease", "gpu-admission", "gpu-admission")
    until(lambda: cluster.get(*lease).object["spec"]["holderIdentity"], "somebody leads")
    assert "this replica leads" in cluster.service.probe()["notes"]


def test_pod_of_a_namespace_that_was_made_again_gets_its_template(real):
    """What a pipeline does that cleans up first. The sandbox does it in less time than a cache may lag behind."""
    if not real.makes_pods:
        pytest.skip("no kube-controller-manager runs here, and without one no namespace ends")
    template = made_for_a_pod(real)
    team = template["metadata"]["namespace"]
    labels = real.get("Namespace", team).object["metadata"]["labels"]
    real.remove(team)
    until(lambda: real.get("Namespace", team).code == 404, "the namespace is gone", 60)
    real.add_namespace(team, labels)
    pod = real.create(manifests.pod(team)).object
    (claim,) = pod["spec"]["resourceClaims"]
    assert real.get("ResourceClaimTemplate", claim["resourceClaimTemplateName"], team).accepted
