"""Every step of a cutover, its check and its way back, run as they are printed."""

from __future__ import annotations

import pytest

from testbed import manifests
from testbed.background import Background
from testbed.sandbox_cluster import SandboxCluster
from testbed.waiting import until
from tests.cutover.operated_cluster import DEFINITIONS, OPERATOR, OperatedCluster, plugin_node, walk
from tests.cutover.printed_kubectl import Kubectl

NODES = ("gpu-1", "gpu-2")


@pytest.fixture
def operated(tmp_path):
    background = Background()
    sandbox = SandboxCluster(background, tmp_path, version="1.36.2")
    try:
        api = sandbox.api
        for document in (*DEFINITIONS, manifests.namespace(OPERATOR, {}), manifests.namespace("team-a", {})):
            assert api.create(document).accepted
        until(lambda: api.create(manifests.cluster_policy(toolkit={"enabled": True})).accepted, "the CRD is served")
        for name in NODES:
            assert api.create(plugin_node(name)).accepted
            pod = manifests.pod("team-a", f"train-{name}", nodeName=name)
            pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
            assert api.create(pod).accepted
        cluster = OperatedCluster(api, sandbox.kubeconfig, tmp_path, Kubectl(api, tmp_path).run, NODES)
        cluster.begin()
        yield cluster
    finally:
        sandbox.close()
        background.close()


@pytest.mark.timeout(600)
def test_each_check_and_way_back_of_a_cutover_works_on_the_sandbox(operated):
    assert walk(operated) == [
        "operator",
        "label-waves",
        "dra-driver",
        "nvidia-driver",
        "wave-1-empty",
        "wave-1-switch",
        "wave-1-convert",
        "wave-1-open",
        "wave-2-empty",
        "wave-2-switch",
        "wave-2-open",
        "exchange",
        "stale-labels",
    ]
