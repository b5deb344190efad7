"""So many more of a pod are admitted as `quota --fit` says, and no more."""

import json
import os

import pytest

from testbed import manifests
from testbed.commands import run_command
from testbed.waiting import until
from tests.cluster.quotas import limited


@pytest.fixture
def more(cluster, tmp_path):
    """The number that the limit of a namespace admits of a pod in a file, or of a stored one."""

    def more(team, pod):
        file = tmp_path / "pod.json"
        file.write_text(json.dumps(pod))
        named = pod if isinstance(pod, str) else str(file)
        arguments = ("quota", "--kubeconfig", cluster.kubeconfig, "-n", team, "--fit", named, "-o", "json")
        done = run_command(*arguments, cwd=tmp_path, environment=os.environ)
        assert done.returncode in (0, 1), done.stderr
        (found,) = json.loads(done.stdout)
        assert len(found["limits"]) == 1, found
        return found["limits"][0]["more"]

    return more


@pytest.mark.parametrize("labels", [{"quota": "enforced"}, {}], ids=["enforced", "not enforced"])
def test_so_many_pods_are_admitted_and_the_next_one_is_refused(cluster, more, labels):
    team = limited(cluster, cluster.namespace(**labels), 7)
    assert cluster.create(manifests.pod(team, "first", gpus=1)).accepted
    number = more(team, manifests.pod(team, "more", gpus=2))
    assert number == 3
    codes = [cluster.create(manifests.pod(team, f"more-{each}", gpus=2)).code for each in range(number + 1)]
    assert codes == [*[201] * number, 403]
    assert more(team, manifests.pod(team, "more", gpus=2)) == 0


@pytest.mark.parametrize("labels", [{}, {"dra": "enabled"}], ids=["device plugin", "converted"])
def test_as_many_more_of_a_stored_pod_are_admitted(cluster, more, labels):
    team = limited(cluster, cluster.namespace(quota="enforced", **labels), 5)
    assert cluster.create(manifests.pod(team, "first", gpus=2)).accepted
    assert more(team, "pod/first") == 1
    codes = [cluster.create(manifests.pod(team, f"more-{each}", gpus=2)).code for each in range(2)]
    assert codes == [201, 403]


def test_as_many_more_are_admitted_in_all_namespaces_of_a_group(cluster, more):
    teams = [cluster.namespace(quota="enforced") for _ in range(2)]
    names = [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": teams}]
    quota = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "ClusterGPUQuota",
        "metadata": {"name": f"fit-{teams[0][-8:]}"},
        "spec": {"limits": [{"name": "all", "gpus": 5}], "namespaceSelector": {"matchExpressions": names}},
    }
    assert cluster.create(quota).accepted
    until(lambda: _counts(cluster, quota["metadata"]["name"], teams), "the group counts both namespaces")
    assert cluster.create(manifests.pod(teams[0], "first", gpus=1)).accepted
    number = more(teams[1], manifests.pod(teams[1], "more", gpus=2))
    assert number == 2
    codes = [cluster.create(manifests.pod(teams[each % 2], f"more-{each}", gpus=2)).code for each in range(number + 1)]
    assert codes == [201, 201, 403]
    assert cluster.delete("ClusterGPUQuota", quota["metadata"]["name"]).accepted


def _counts(cluster, name, teams):
    group = cluster.get("GPUQuotaGroup", name)
    status = group.object.get("status", {}) if group.accepted else {}
    conditions = {each["type"]: each["status"] for each in status.get("conditions", [])}
    return conditions.get("Ready") == "True" and sorted(status.get("namespaces", [])) == sorted(teams)
