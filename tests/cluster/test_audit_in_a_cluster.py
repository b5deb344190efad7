"""`gpu-admission audit` of a running cluster."""

import json

from testbed import manifests
from tests.cluster.commands import command_output


def audit(cluster, team):
    """The report about a namespace, as JSON."""
    return json.loads(command_output("audit", "--kubeconfig", cluster.kubeconfig, "-n", team, "-o", "json"))


def test_audit_finds_a_pod_that_escaped(cluster):
    team = cluster.namespace()
    cluster.create(manifests.pod(team)).object  # noqa: B018 - it is not refused
    opted_in = {"metadata": {"labels": {"gpu-admission.io/dra": "enabled"}}}
    assert cluster.patch("Namespace", team, body=opted_in).accepted
    report = audit(cluster, team)
    assert report["summary"] == "1 object would be refused, 0 with warnings; 1 of 1 namespace ready to convert"
    (finding,) = report["findings"]
    assert (finding["rule"], finding["object"]) == ("GA321", {"kind": "Pod", "namespace": team, "name": "train"})
    assert finding["message"].startswith("requests GPUs from the device plugin in a namespace that converts: ")


def test_audit_tells_what_would_become_of_workloads(cluster):
    team = cluster.namespace()
    cluster.create(manifests.deployment(team, "train", 1)).object  # noqa: B018 - it is not refused
    report = audit(cluster, team)
    assert report["findings"] == []
    (namespace,) = report["readiness"]
    assert (namespace["mode"], namespace["ready"], namespace["workloads"], namespace["converts"]) == ("off", True, 1, 1)
