"""Many files under one quota: the order of charges, stored objects, the work for each file, and Ctrl-C."""

from __future__ import annotations

import json
import re
import signal

import pytest

from policies.kubernetes.bounds import bounded_by
from policies.quota.limits.quota import parse_quota
from tests.cli.quota_files import TEAMS, namespace, quota
from tests.counted_work import RecordedWork
from webhook.cli.progress import Progress

NO_PODS = {"apiVersion": "v1", "kind": "PodList", "items": []}


@pytest.fixture
def verdicts(write, invoke):
    """Review files beside a cluster, and return the verdict on each object by its name."""

    def verdicts(*paths, cluster=(NO_PODS,), hard=8, **spec):
        files = write("cluster/files.yaml", namespace(), quota(hard=hard, **spec), *cluster)
        done = invoke("review", "--cluster", files, "-o", "json", *paths)
        assert done.exit_code in (0, 1), done.output
        return {each["object"]["name"]: each["verdict"] for each in json.loads(done.stdout)}

    return verdicts


def stored(document, **metadata):
    """A pod as the cluster has it."""
    return {**document, "metadata": {**document["metadata"], "uid": f"uid-{document['metadata']['name']}", **metadata}}


def deployment(replicas, gpus, name="web"):
    container = {"name": "main", "image": "web", "resources": {"limits": {"nvidia.com/gpu": gpus}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "namespace": "team-a"},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def of_deployment(pod, number):
    """A stored pod of the Deployment web."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d8f", "uid": "r", "controller": True}
    labels = {"pod-template-hash": "5d8f"}
    return stored(pod(f"web-5d8f-{number}", gpus=2), ownerReferences=[owner], labels=labels)


@pytest.mark.parametrize("cluster", [(NO_PODS,), ()], ids=["pods known", "pods unknown"])
def test_files_count_against_those_after_them_only(verdicts, write, pod, cluster):
    folder = write("pods/1.yaml", pod("first", gpus=1)).rpartition("/")[0]
    for number in range(2, 6):
        write(f"pods/{number}.yaml", pod(f"pod-{number}", gpus=7))
    assert verdicts(folder, cluster=cluster) == {
        "first": "admitted",
        "pod-2": "admitted",
        "pod-3": "refused",
        "pod-4": "refused",
        "pod-5": "refused",
    }


def test_order_of_arguments_decides_who_gets_the_rest(verdicts, write, pod):
    a, b = write("a.yaml", pod("a", gpus=5)), write("b.yaml", pod("b", gpus=5))
    assert verdicts(b, a) == {"b": "admitted", "a": "refused"}


def test_smaller_pod_after_a_refused_one_is_admitted(verdicts, write, pod):
    pods = write("pods.yaml", pod("first", gpus=6), pod("large", gpus=4), pod("small", gpus=2))
    assert verdicts(pods) == {"first": "admitted", "large": "refused", "small": "admitted"}


def test_pods_with_one_generated_name_count_one_by_one(write, invoke, pod):
    document = pod(gpus=5)
    document["metadata"] = {"generateName": "train-", "namespace": "team-a"}
    done = invoke("review", "--no-diff", write("files.yaml", namespace(), quota(), NO_PODS, document, document))
    assert "4 objects: 3 admitted, 1 refused" in done.output.replace("admitted (1 with warnings)", "admitted")


def test_stored_pods_count_before_all_files(verdicts, write, pod):
    cluster = (stored(pod("running", gpus=6)),)
    assert verdicts(write("pod.yaml", pod(gpus=4)), cluster=cluster) == {"train": "refused"}


def test_file_of_a_stored_pod_is_not_counted_twice(verdicts, write, pod):
    pods = write("pods.yaml", pod("new", gpus=2), pod("running", gpus=6), pod("last", gpus=1))
    cluster = (stored(pod("running", gpus=6)),)
    assert verdicts(pods, cluster=cluster) == {"new": "admitted", "running": "admitted", "last": "refused"}


def test_file_of_a_quota_keeps_what_its_status_counts(write, invoke, pod):
    """The status has 6 GPUs, of which 4 are those of the pod that is a file too; the file of the quota has no status."""
    document = quota()
    (limit,) = parse_quota(document).limits
    limits = [{"name": "all", "key": limit.key, "hard": "8", "used": "6", "reserved": "0"}]
    counted = {**document, "status": {"limits": limits, "counted": {"pods": "1", "claims": "1"}}}
    cluster = write("cluster.yaml", namespace(), counted, stored(pod("running", gpus=4)))
    files = write("files.yaml", document, pod("running", gpus=4), pod("new", gpus=2), pod("last", gpus=1))
    done = invoke("review", "--cluster", cluster, "--no-diff", files)
    assert re.findall(r"Pod team-a/(\w+)  (\w+)", done.stdout) == [
        ("running", "admitted"),
        ("new", "admitted"),
        ("last", "refused"),
    ]
    assert 'needs 1 GPU, 0 of 8 left in limit "all"; ' in done.stdout


def test_workload_counts_with_all_its_pods(verdicts, write, pod):
    files = write("files.yaml", deployment(3, 2), pod("small", gpus=2), pod("last", gpus=1))
    assert verdicts(files) == {"web": "admitted", "small": "admitted", "last": "refused"}


def test_workload_counts_with_the_pods_that_fit(verdicts, write, pod):
    files = write("files.yaml", deployment(9, 3), pod("small", gpus=2), pod("last", gpus=1))
    assert verdicts(files) == {"web": "admitted", "small": "admitted", "last": "refused"}


def test_file_of_a_workload_whose_pods_run_is_not_counted_twice(verdicts, write, pod):
    cluster = (of_deployment(pod, 1), of_deployment(pod, 2))
    files = write("files.yaml", deployment(2, 2), pod("new", gpus=4), pod("last", gpus=1))
    assert verdicts(files, cluster=cluster) == {"web": "admitted", "new": "admitted", "last": "refused"}


def test_more_replicas_of_a_running_workload_count(verdicts, write, pod):
    cluster = (of_deployment(pod, 1), of_deployment(pod, 2))
    files = write("files.yaml", deployment(3, 2), pod("new", gpus=3))
    assert verdicts(files, cluster=cluster) == {"web": "admitted", "new": "refused"}


def test_quota_that_only_warns_counts_all_pods(verdicts, write, pod):
    pods = write("pods.yaml", pod("a", gpus=6), pod("b", gpus=6))
    assert verdicts(pods, mode="Warn") == {"a": "admitted", "b": "admitted"}


def test_quotas_of_namespaces_are_apart(write, invoke, pod):
    files = [namespace("a"), namespace("b"), quota("a"), quota("b")]
    pods = [pod("x", "a", gpus=8), pod("x", "b", gpus=8)]
    assert invoke("review", write("files.yaml", *files, *pods)).exit_code == 0


def in_namespace(document, namespace):
    return {**document, "metadata": {**document["metadata"], "namespace": namespace}}


def test_files_count_in_the_group_of_their_namespaces(write, invoke, pod):
    cluster = write("cluster/teams.yaml", TEAMS)
    pods = write(
        "pods.yaml",
        in_namespace(pod("a", gpus=1), "vision-dev"),
        in_namespace(pod("b", gpus=2), "vision-prod"),
        in_namespace(pod("c", gpus=1), "vision-dev"),
        in_namespace(pod("d", gpus=8), "speech"),
    )
    done = invoke("review", "--cluster", cluster, "-o", "json", pods)
    verdicts = {each["object"]["name"]: each["verdict"] for each in json.loads(done.stdout)}
    assert verdicts == {"a": "admitted", "b": "refused", "c": "admitted", "d": "admitted"}
    assert (
        'raise limit "total" of ClusterGPUQuota research in the namespaces of group "vision" to 10 to fit everything: '
        "10 of 8 GPUs would be used"
    ) in " ".join(invoke("review", "--cluster", cluster, pods).output.split())


def test_pods_of_a_workload_count_in_both_quotas_as_many_as_fit_into_both(write, invoke, pod):
    cluster = write("cluster/teams.yaml", TEAMS, quota("vision-dev", hard=4))
    web = in_namespace(deployment(replicas=5, gpus=1), "vision-dev")
    files = write("files.yaml", web, in_namespace(pod("last", gpus=1), "vision-prod"))
    done = invoke("review", "--cluster", cluster, "-o", "json", files)
    assert [each["verdict"] for each in json.loads(done.stdout)] == ["admitted", "admitted"]


def test_summary_says_once_how_much_the_quota_lacks(write, invoke, pod):
    cluster = write("cluster.yaml", namespace(), quota(), NO_PODS)
    pods = write("pods.yaml", pod("first", gpus=1), *(pod(f"pod-{number}", gpus=7) for number in range(24)))
    done = invoke("review", "--cluster", cluster, "-q", pods)
    *_, numbers, shortage = done.stdout.splitlines()
    assert numbers == "25 objects: 2 admitted, 23 refused"
    assert shortage == (
        'raise limit "all" of GPUQuota gpu in namespace team-a to 169 to fit everything: 169 of 8 GPUs would be used'
    )
    assert done.output.count("to fit everything") == 1
    assert done.output.count('An administrator can raise limit "all" of GPUQuota gpu\n') == 1
    as_json = invoke("review", "--cluster", cluster, "-o", "json", pods)
    assert as_json.stderr.startswith('raise limit "all" of GPUQuota gpu')


def test_summary_names_no_quota_that_has_enough(write, invoke, pod):
    done = invoke("review", write("files.yaml", namespace(), quota(), pod(gpus=8)))
    assert "raise limit" not in done.output


def test_work_grows_with_the_number_of_files_and_not_with_its_square(write, invoke, pod):
    cluster = write("cluster.yaml", namespace(), quota(hard=10_000), NO_PODS)

    def units(count):
        work = RecordedWork()
        pods = write("pods.yaml", *(pod(f"pod-{number}") for number in range(count)))
        with bounded_by(work):
            assert invoke("review", "--cluster", cluster, "-o", "json", pods).exit_code == 0
        return sum(work.steps)

    assert 0 < units(128) < 10 * units(16)


@pytest.fixture
def interrupt_at(monkeypatch, heeded_signals):
    """A function that sends SIGINT to this process when the object of a number is about to be reviewed."""

    def interrupt_at(wanted):
        show_count = Progress.show_count

        def interrupting(progress, what, number, total):
            show_count(progress, what, number, total)
            if (what, number) == ("reviewing", wanted):
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(Progress, "show_count", interrupting)

    return interrupt_at


@pytest.fixture
def interrupt(interrupt_at):
    """Send SIGINT when the third object is about to be reviewed."""
    interrupt_at(3)


@pytest.fixture
def five(write, pod):
    """Five pods in four files."""
    write("pods/a.yaml", pod("a"), pod("b"))
    for name in "cde":
        write(f"pods/{name}.yaml", pod(name))
    return "pods"


@pytest.mark.usefixtures("interrupt")
def test_ctrl_c_prints_what_was_reviewed_and_what_is_left(invoke, cluster, five):
    done = invoke("review", "--cluster", cluster, "--no-diff", five)
    assert re.findall(r"Pod team-a/(\w+)  admitted", done.stdout) == ["a", "b"]
    assert done.stdout.splitlines()[-1] == "interrupted: 3 objects in 3 files not reviewed"
    assert done.exit_code == 130


@pytest.mark.usefixtures("interrupt")
@pytest.mark.parametrize("output", ["json", "sarif", "junit", "github", "yaml"])
def test_ctrl_c_leaves_the_output_complete(invoke, cluster, five, output):
    done = invoke("review", "--cluster", cluster, "-o", output, five)
    assert done.exit_code == 130
    assert done.stderr.splitlines()[-1] == "interrupted: 3 objects in 3 files not reviewed"
    if output == "json":
        assert [each["object"]["name"] for each in json.loads(done.stdout)] == ["a", "b"]
    if output == "sarif":
        (invocation,) = json.loads(done.stdout)["runs"][0]["invocations"]
        assert (invocation["executionSuccessful"], invocation["exitCode"]) == (False, 130)


def test_ctrl_c_before_the_first_object_prints_an_empty_list(invoke, cluster, five, interrupt_at):
    interrupt_at(1)
    done = invoke("review", "--cluster", cluster, "-o", "json", five)
    assert (done.exit_code, json.loads(done.stdout)) == (130, [])


@pytest.mark.usefixtures("interrupt")
def test_ctrl_c_updates_no_baseline(invoke, cluster, five, folder):
    done = invoke("review", "--cluster", cluster, "--baseline", "known.yaml", "--update-baseline", five)
    assert done.exit_code == 130
    assert not (folder / "known.yaml").exists()


@pytest.mark.usefixtures("interrupt")
def test_ctrl_c_calls_no_known_finding_stale(invoke, cluster, five, write):
    entry = {"file": "pods/e.yaml", "object": "Pod team-a/e", "rule": "GA307", "level": "error", "path": "spec"}
    known = write("known.yaml", {"findings": [entry]})
    assert "no longer found" not in invoke("review", "--cluster", cluster, "--baseline", known, five).output
