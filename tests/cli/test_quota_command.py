"""`gpu-admission quota` on files: what it prints and how it ends."""

from __future__ import annotations

import json
import re

import pytest

from tests.cli.quota_files import AWAY, EXAMPLES, TEAMS, WITH_QUOTA, namespace, quota
from tests.published import shared_device
from tests.usage.usage_objects import device, resource_slice


def listed(kind, version="v1", *items):
    return {"apiVersion": version, "kind": f"{kind}List", "items": list(items)}


NOTHING = (listed("Pod"), listed("ResourceClaim", "resource.k8s.io/v1"), listed("Node"))


def test_example_is_reported(run):
    done = run("quota", "--cluster", EXAMPLES / "cluster", "--cluster", WITH_QUOTA, **AWAY)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (EXAMPLES / "quota" / "expected.txt").read_text()


def test_json_has_the_same_content(run):
    done = run("quota", "--cluster", EXAMPLES / "cluster", "--cluster", WITH_QUOTA, "-o", "json", **AWAY)
    assert (done.returncode, done.stderr) == (0, "")
    reported = json.loads(done.stdout)
    assert reported["notes"] == []
    (quota,) = reported["quotas"]
    assert (quota["namespace"], quota["state"], quota["enforced"]) == ("team-vision", "within", True)
    assert quota["limits"][2] == {
        "name": "memory",
        "unit": "memory",
        "hard": "858993459200",
        "used": "427982585856",
        "reserved": "171041619968",
        "left": "259969253376",
        "counted": True,
        "held": "427982585856",
        "waiting": "0",
        **dict.fromkeys(("expected", "lent", "borrowed")),
    }
    assert quota["holders"][2] == {
        "kind": "Pod",
        "name": "team-vision/pretrain-0",
        "seconds": None,
        "amounts": {"h100": "4", "memory": "342083239936"},
        "waits": False,
    }


def test_manifest_of_a_quota_is_tried_on_what_runs(invoke, write, cluster):
    file = write("quota.yaml", quota("team-legacy", 4))
    done = invoke("quota", "--cluster", cluster, "--cluster", EXAMPLES / "cluster-in-use", "--cluster", file)
    assert done.exit_code == 1
    first, *lines = done.stdout.splitlines()
    assert first == "GPUQuota team-legacy/gpu  over"
    assert "Warning: its status does not say how much is used of all, so that is counted here." in lines
    assert "all   [####################>     8         0     0  4 GPUs" in lines


def test_only_one_namespace_is_reported_where_one_is_named(invoke, write):
    file = write("all.yaml", *NOTHING, namespace(), namespace("team-b"), quota(), quota("team-b"))
    done = invoke("quota", "--cluster", file, "-n", "team-b")
    assert (done.exit_code, re.findall(r"GPUQuota \S+", done.stdout)) == (0, ["GPUQuota team-b/gpu"])


def test_quotas_come_by_namespace_with_a_summary(invoke, write):
    wrong = quota("team-c", mode="Allow")
    file = write("all.yaml", *NOTHING, namespace(), quota("team-b"), wrong, quota())
    done = invoke("quota", "--cluster", file)
    assert done.exit_code == 1
    assert re.findall(r"GPUQuota \S+", done.stdout) == [f"GPUQuota team-{each}/gpu" for each in "abc"]
    assert done.stdout.endswith("\n\n3 quotas: 2 within, 1 unreadable\n")


def test_namespace_without_a_quota_is_not_limited(invoke, write):
    file = write("all.yaml", namespace(), namespace("team-b"), quota())
    done = invoke("quota", "--cluster", file, "-n", "team-b")
    assert (done.exit_code, done.stdout) == (
        0,
        (
            "Namespace team-b has no GPUQuota, so no limit holds. To write one:\n"
            "  gpu-admission generate quota -n team-b --gpus 8\n"
            "gpu-admission usage lists the pods with GPUs.\n"
        ),
    )


def test_cluster_without_quotas_is_not_limited(invoke, write):
    file = write("all.yaml", listed("GPUQuota", "gpu-admission.io/v1alpha1"))
    done = invoke("quota", "--cluster", file)
    assert (done.exit_code, done.stdout) == (
        0,
        (
            "No namespace has a GPUQuota, so no limit holds. To write one:\n"
            "  gpu-admission generate quota -n NAMESPACE --gpus 8\n"
            "gpu-admission usage lists the pods with GPUs.\n"
        ),
    )
    assert json.loads(invoke("quota", "--cluster", file, "-o", "json").stdout) == {"quotas": [], "notes": []}


def test_files_without_quotas_are_no_error(invoke, write):
    done = invoke("quota", "--cluster", write("namespace.yaml", namespace()))
    assert done.exit_code == 0
    assert done.stdout.startswith("No namespace has a GPUQuota")
    note = "Note: the files have no GPUQuotas; kubectl get gpuquotas -A -o yaml prints those of a cluster."
    assert " ".join(done.stdout.split()).endswith(note)


def test_facts_missing_from_the_files_are_noted(invoke, write):
    done = invoke("quota", "--cluster", write("quota.yaml", quota()), "-o", "json")
    reported = json.loads(done.stdout)
    assert (done.exit_code, reported["quotas"][0]["holders"], reported["quotas"][0]["enforced"]) == (1, None, None)
    assert reported["notes"] == [
        "the files have no Pods, so what they hold is not shown, and usage is shown only if a status has it",
        "the files have no ResourceClaims, so what they hold is not shown",
        "the files have no Nodes, so pods are shown with the most that they could have got",
        "the files have no ResourceSlices, so pods and claims with devices of DRA are shown with the most that they could have got",
    ]


def test_settings_of_a_file_hold(invoke, write):
    weights = [{"products": ["Tesla-T4"], "sharing": "time-slicing", "gpus": "1/8"}]
    policy = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
        "spec": {"quota": {"weights": weights}},
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "chat", "namespace": "team-a"},
        "spec": {
            "nodeName": "gpu-t4-02",
            "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu.shared": "1"}}}],
        },
    }
    labels = {"nvidia.com/gpu.product": "Tesla-T4-SHARED", "nvidia.com/gpu.replicas": "4"}
    labels["nvidia.com/gpu.sharing-strategy"] = "time-slicing"
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "gpu-t4-02", "labels": labels},
        "status": {"allocatable": {"nvidia.com/gpu.shared": "4"}},
    }
    file = write("all.yaml", namespace(), listed("ResourceClaim", "resource.k8s.io/v1"), quota(), pod, node)

    def used(*arguments):
        reported = json.loads(invoke("quota", "--cluster", file, "-o", "json", *arguments).stdout)
        return reported["quotas"][0]["limits"][0]["used"]

    assert (used(), used("--settings", write("settings.yaml", policy))) == ("1/4", "1/8")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--cluster", "x", "--context", "y"],
            "--cluster is for files, and --kubeconfig and --context are for a running cluster",
        ),
        (["-n", "../a b"], 'invalid namespace name "../a b"'),
        (["--cluster", "all.yaml", "-n", "team-x"], "namespace team-x does not exist"),
        (["--kubeconfig", "/nonexistent/config"], "kubeconfig file /nonexistent/config not found"),
    ],
    ids=["files and cluster", "impossible namespace", "no such namespace", "no kubeconfig"],
)
def test_wrong_usage_is_reported(invoke, write, arguments, expected):
    write("all.yaml", namespace(), quota())
    write("namespace.yaml", namespace())
    done = invoke("quota", *arguments)
    assert (done.exit_code, done.stdout, done.stderr.splitlines()[-1]) == (2, "", f"Error: {expected}")


def test_files_that_cannot_be_read_are_reported(invoke, write):
    done = invoke("quota", "--cluster", write("bad.yaml", "a: ["))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("problem; nothing was done\n")


def test_share_that_gpus_shared_without_limit_lack_is_noted(invoke, write):
    slices = resource_slice([shared_device(device(), "unlimited")])
    file = write("all.yaml", *NOTHING, namespace(), quota(), slices)
    (note,) = json.loads(invoke("quota", "--cluster", file, "-o", "json").stdout)["notes"]
    assert note == (
        "a claim counts as a whole GPU, because the driver shares GPUs without limit; set quota.unlimitedShare of the "
        "GPUAdmissionPolicy to count less"
    )


FIT = (
    "quota",
    "--cluster",
    EXAMPLES / "cluster",
    "--cluster",
    WITH_QUOTA,
    "--fit",
    EXAMPLES / "quota-exceeded" / "pod.yaml",
)


def test_how_many_more_of_a_file_fit(run):
    done = run(*FIT, **AWAY)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith(
        'none fits: limit "h100" of GPUQuota team-vision/gpu has 2 GPUs left, each takes 4.\n'
        "Each is pod team-vision/pretrain-1.\n"
    )


def test_how_many_more_fit_as_json(run):
    (found,) = json.loads(run(*FIT, "-o", "json", **AWAY).stdout)
    assert (found["more"], found["now"], found["ifEmpty"]) == (0, 3, 4)
    assert found["limits"][0] == {
        "owner": "GPUQuota team-vision/gpu",
        "name": "h100",
        "unit": "gpus",
        "each": "4",
        "left": "2",
        "more": 0,
        "refuses": True,
        "why": "",
    }


def test_how_many_more_of_a_stored_pod_fit(run):
    arguments = ("--cluster", EXAMPLES / "cluster", "--cluster", WITH_QUOTA, "-n", "team-vision", "--fit")
    done = run("quota", *arguments, "pod/pretrain-0", **AWAY)
    assert (done.returncode, done.stdout.splitlines()[1]) == (1, "Each is pod team-vision/pretrain-0.")


def test_files_without_pods_have_no_answer(run):
    done = run(*FIT[:-1], WITH_QUOTA / "gpuquotas.yaml", **AWAY)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no pods, workloads, claims or claim templates in" in done.stderr


def test_limits_that_kubernetes_expresses_are_printed_as_resource_quotas(invoke, write):
    lists = [listed("DeviceClass", "resource.k8s.io/v1"), listed("ResourceSlice", "resource.k8s.io/v1")]
    node = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "a", "labels": {"nvidia.com/gpu.product": "Tesla-T4", "nvidia.com/gpu.memory": "15360"}},
        "status": {"allocatable": {"nvidia.com/gpu": "4"}},
    }
    limits = [
        {"name": "all", "gpus": 8},
        {"name": "h100", "gpus": 2, "selector": {"products": ["H100*"]}},
        {"name": "batch", "gpus": 4, "selector": {"priorityClasses": ["batch"]}},
    ]
    made = quota(limits=limits)
    done = invoke("quota", "--cluster", write("all.yaml", namespace(), node, *lists, made), "--compile")
    assert done.exit_code == 1
    assert done.stdout == (
        "# GPUQuota team-a/gpu: 2 of 3 limits have a form in ResourceQuotas, exact for the devices that the cluster has now.\n"
        "# Limit h100 (2 GPUs) is lost: requests.nvidia.com/gpu also counts devices that the limit does not count.\n"
        "# Limit all (8 GPUs) is requests.nvidia.com/gpu: 8.\n"
        "apiVersion: v1\nkind: ResourceQuota\nmetadata:\n  name: gpu\n  namespace: team-a\n"
        'spec:\n  hard:\n    requests.nvidia.com/gpu: "8"\n---\n'
        "# Limit batch (4 GPUs) is requests.nvidia.com/gpu: 4.\n"
        "apiVersion: v1\nkind: ResourceQuota\nmetadata:\n  name: gpu-batch\n  namespace: team-a\n"
        'spec:\n  hard:\n    requests.nvidia.com/gpu: "4"\n  scopeSelector:\n    matchExpressions:\n'
        "    - scopeName: PriorityClass\n      operator: In\n      values:\n      - batch\n"
    )


def test_form_of_a_quota_needs_what_shows_devices(invoke, write):
    team = {**quota(), "kind": "ClusterGPUQuota", "metadata": {"name": "research"}}
    done = invoke("quota", "--cluster", write("all.yaml", namespace(), quota(), team), "--compile")
    assert done.exit_code == 1
    assert done.stdout == (
        "# ClusterGPUQuota research is lost: a ResourceQuota limits one namespace, not several together.\n---\n"
        "# GPUQuota team-a/gpu is lost: nodes, DeviceClasses and ResourceSlices are unknown, which show what it counts.\n"
    )


@pytest.mark.parametrize(("labels", "teams"), [({}, []), ({"team": "a"}, ["research"])], ids=["no group", "a group"])
def test_form_of_one_namespace_names_the_quota_of_its_team_only(invoke, write, labels, teams):
    found = [
        {
            **quota(limits=[{"name": "all", "gpus": 8}], namespaceSelector={"matchLabels": {"team": team}}),
            "kind": "ClusterGPUQuota",
            "metadata": {"name": name},
        }
        for name, team in {"research": "a", "sales": "b"}.items()
    ]
    done = invoke("quota", "--cluster", write("all.yaml", namespace(**labels), *found), "--compile", "-n", "team-a")
    assert re.findall(r"ClusterGPUQuota (\S+) is lost", done.stdout) == teams
    assert done.exit_code == len(teams)


def test_form_of_a_quota_is_yaml(invoke, write):
    done = invoke("quota", "--cluster", write("all.yaml", namespace()), "--compile", "-o", "json")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (2, "Error: remove -o json: --compile prints YAML")


def test_fit_and_compile_exclude_each_other(invoke):
    done = invoke("quota", "--fit", "pod/train", "--compile")
    assert (done.exit_code, done.stderr.splitlines()[-1]) == (
        2,
        "Error: --fit and --compile print different things; give one of them",
    )


@pytest.fixture
def teams(tmp_path):
    """A folder with a ClusterGPUQuota and two groups, one of which uses what the other lends."""
    (tmp_path / "teams.yaml").write_text(TEAMS)
    return tmp_path


def test_group_is_reported_with_its_namespaces_and_loans(invoke, teams):
    done = invoke("quota", "--cluster", EXAMPLES / "cluster", "--cluster", teams, "-n", "vision-prod")
    assert done.exit_code == 0
    assert done.stdout.startswith(
        """GPUQuotaGroup research.vision  within
Pods over a limit are refused (mode Enforce). Not all its namespaces enforce it: while it cannot be
checked, all pods are admitted in those that do not.
Counts namespaces vision-dev and vision-prod.
Warning: its status does not say how much is used of total, so that is counted here.

NAME   USE                     USED  RESERVED  LEFT  LIMIT
total  [###############.....]     6         0     2  8 GPUs
total: uses 2 beyond the 4 GPUs that it is expected to use, lent by other groups.

USED BY            USES
vision-dev/train   total 3
vision-prod/serve  total 3
"""
    )


def test_team_quota_that_cannot_be_read_is_named(invoke, teams):
    broken = TEAMS.replace(
        "kind: ClusterGPUQuota\nmetadata: {name: research}", "kind: ClusterGPUQuota\nmetadata: {name: a.b}"
    )
    (teams / "teams.yaml").write_text(broken)
    done = invoke("quota", "--cluster", EXAMPLES / "cluster", "--cluster", teams)
    assert done.exit_code == 1
    assert " ".join(done.stdout.split()).endswith(
        "Warning: ClusterGPUQuota a.b cannot be read, and its groups stay as they are. Write at most 63 lower-case letters, digits "
        'and dashes; the names of groups begin with it: name is "a.b"; metadata.name.'
    )


def test_all_groups_are_reported(invoke, teams):
    done = invoke("quota", "--cluster", EXAMPLES / "cluster", "--cluster", teams, "-o", "json")
    reported = {each["name"]: each for each in json.loads(done.stdout)["quotas"]}
    assert [*reported] == ["research.speech", "research.vision"]
    (limit,) = reported["research.speech"]["limits"]
    assert {field: limit[field] for field in ("used", "expected", "lent", "borrowed")} == {
        "used": "0",
        "expected": "4",
        "lent": "2",
        "borrowed": "0",
    }
    assert (reported["research.vision"]["kind"], reported["research.vision"]["namespaces"]) == (
        "GPUQuotaGroup",
        ["vision-dev", "vision-prod"],
    )
