"""Pods that the scheduler binds to the nodes of the tests."""

import pytest

from testbed.clusters import NODES
from testbed.waiting import until


def bound(cluster, team, name="train"):
    """The pod, when it has a node."""
    if not cluster.schedules:
        pytest.skip("no kube-scheduler runs here")

    def look():
        pod = cluster.get("Pod", name, team).object
        assert pod["spec"].get("nodeName"), pod.get("status")
        return pod

    return until(look, "the pod is bound to a node", 60)


def ours(**spec):
    """Only the nodes of the tests, where a cluster has others."""
    return {
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {
                            "matchExpressions": [
                                {"key": "kubernetes.io/hostname", "operator": "In", "values": list(NODES)}
                            ]
                        }
                    ]
                }
            }
        },
        **spec,
    }
