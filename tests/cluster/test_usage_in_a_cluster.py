"""`gpu-admission usage` of a running cluster."""

import json

from testbed import manifests
from tests.cluster.bound_pods import bound, ours
from tests.cluster.commands import command_output


def usage(cluster, *arguments):
    """The report, as JSON."""
    return json.loads(command_output("usage", "--kubeconfig", cluster.kubeconfig, "-o", "json", *arguments))


def test_published_gpus_are_counted(cluster):
    nodes = {each["node"]: each["devices"] for each in usage(cluster)["nodes"]}
    for name in cluster.nodes:
        (devices,) = nodes[name]
        assert (devices["product"], devices["total"], devices["providers"]) == ("NVIDIA-H100-80GB-HBM3", "2", ["DRA"])


def test_converted_pod_holds_what_it_got(real):
    team = real.namespace(dra="enabled")
    assert real.create(manifests.pod(team, gpus=2, **ours())).accepted
    node = bound(real, team)["spec"]["nodeName"]
    (holder,) = usage(real, "-n", team)["holders"]
    assert (holder["pods"], holder["node"], holder["gpus"]) == (["train"], node, "2")
    assert holder["claim"].startswith("train-")
    assert holder["devices"][0]["names"] == ["gpu-0", "gpu-1"]
