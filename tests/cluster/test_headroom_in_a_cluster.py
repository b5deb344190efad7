"""So many more of a pod are admitted as `quota --fit` says, and no more."""

import json
import os

import pytest

from testbed import manifests
from testbed.commands import run_command
from tests.cluster.quotas import limited


@pytest.fixture
def more(cluster, tmp_path):
    """The number that the limit of a namespace admits of a pod in a file."""

    def more(team, pod):
        file = tmp_path / "pod.json"
        file.write_text(json.dumps(pod))
        arguments = ("quota", "--kubeconfig", cluster.kubeconfig, "-n", team, "--fit", str(file), "-o", "json")
        done = run_command(*arguments, cwd=tmp_path, environment=os.environ)
        assert done.returncode in (0, 1), done.stderr
        ((found,),) = [each["limits"] for each in json.loads(done.stdout)]
        return found["more"]

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
