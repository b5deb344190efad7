"""Every step of a cutover, its check and its way back, with kubectl against a real control plane.

The operator, the drivers and Helm are played, as on the sandbox.
"""

import os
import subprocess
from pathlib import Path

import pytest

from testbed import manifests
from testbed.control_plane import ControlPlane
from testbed.real_cluster import RealCluster
from testbed.waiting import until
from tests.cutover.operated_cluster import DEFINITIONS, OPERATOR, OperatedCluster, plugin_node, walk

NODES = ("cutover-1", "cutover-2")
TEAM = "cutover-team"


@pytest.fixture
def fresh(background, tmp_path):
    if os.environ.get("KUBECONFIG"):
        pytest.skip("a cluster of somebody's is not changed so much")
    plane = ControlPlane(
        Path(os.environ["KUBEBUILDER_ASSETS"]), emulated_version=os.environ.get("EMULATED_VERSION", "")
    )
    cluster = RealCluster.of_control_plane(background, plane, tmp_path)
    yield cluster
    cluster.close()


@pytest.fixture
def operated(fresh, tmp_path):
    api = fresh.api
    until(lambda: api.request("GET", "/readyz").accepted, "the API server answers")
    for document in (*DEFINITIONS, manifests.namespace(OPERATOR, {}), manifests.namespace(TEAM, {})):
        assert api.create(document).accepted
    policy = manifests.cluster_policy(toolkit={"enabled": True})
    until(lambda: api.create(policy).accepted, "the CRD is served")
    until(lambda: api.get("ServiceAccount", "default", TEAM).accepted, "pods may be created")
    for name in NODES:
        node = plugin_node(name)
        assert api.create(node).accepted
        assert api.patch("Node", name, body={"status": node["status"]}, subresource="status").accepted
        # No kubelet ends the pod, so it must end at once.
        pod = manifests.pod(TEAM, f"train-{name}", nodeName=name, terminationGracePeriodSeconds=0)
        pod["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
        assert api.create(pod).accepted

    def kubectl(*arguments):
        program = Path(os.environ["KUBEBUILDER_ASSETS"]) / "kubectl"
        done = subprocess.run(
            [program, f"--kubeconfig={fresh.kubeconfig}", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr

    cluster = OperatedCluster(api, fresh.kubeconfig, tmp_path, kubectl, NODES)
    cluster.begin()
    return cluster


@pytest.mark.timeout(900)
def test_each_check_and_way_back_of_a_cutover_works(operated):
    assert walk(operated)[-2:] == ["exchange", "stale-labels"]
