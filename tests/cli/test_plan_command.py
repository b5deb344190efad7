"""`gpu-admission plan` on files: what it prints, what it refuses, and how it ends."""

from __future__ import annotations

import json

import pytest

from tests.cli.quota_files import AWAY, EXAMPLES, quota
from tests.explain import conftest as k8s
from tests.outcome.clusters import BASE, bound
from tests.plan.nodes import GPU, config_map, gpu_node, policy, time_slicing

CLUSTER = [
    argument
    for name in ("cluster", "cluster-in-use", "cluster-with-quota", "cluster-busy", "cluster-with-operator")
    for argument in ("--cluster", EXAMPLES / name)
]


@pytest.fixture
def planned(invoke, write):
    """Plan documents in a small cluster."""

    def planned(*documents, options=(), objects=()):
        cluster = write("cluster.yaml", *BASE, policy(), config_map(whole="version: v1\n"), *(objects or [gpu_node()]))
        change = [write("change.yaml", *documents)] if documents else []
        return invoke("plan", "--cluster", cluster, *options, *change)

    return planned


def test_example_is_planned(run):
    done = run("plan", *CLUSTER, EXAMPLES / "plan" / "time-slicing.yaml", **AWAY)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (EXAMPLES / "plan" / "expected.txt").read_text()


def test_change_that_breaks_nothing(planned):
    done = planned(gpu_node(labels={"rack": "7"}), objects=[gpu_node(), bound("a")])
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout == "Nothing would break.\n\nNot affected: 1 workload with 1 pod.\n"


def test_null_in_a_manifest_of_a_node_removes_its_label(planned):
    removed = planned(
        gpu_node(labels={"rack": None}), objects=[gpu_node(labels={"rack": ""}), bound("a", nodeSelector={"rack": ""})]
    )
    kept = planned(
        gpu_node(labels={"rack": ""}), objects=[gpu_node(labels={"rack": ""}), bound("a", nodeSelector={"rack": ""})]
    )
    assert (removed.exit_code, kept.exit_code) == (1, 0)


TAINTED = [
    {"serverVersion": {"gitVersion": "v1.37.1"}},
    *(k8s.node(name) for name in ("node-1", "node-2")),
    *(k8s.resource_slice(k8s.gpus(1), name) for name in ("node-1", "node-2")),
    k8s.template(),
    *k8s.running(tolerations=[{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]),
]


def test_pods_that_a_taint_rule_ends_are_named_with_the_time_and_their_next_node(planned):
    done = planned(k8s.taint_rule("NoExecute", pool="node-1"), objects=TAINTED)
    assert (done.exit_code, done.stderr) == (1, "")
    text = " ".join(done.stdout.split())
    assert text.startswith("1 pod would end.")
    assert (
        "Would end because of taints of devices: - pod team-a/train on node-1 ends 30 seconds after the taint is there: gpu-0 "
        "gets the taint example.com/repair:NoExecute of DeviceTaintRule repair; no controller makes it again; a pod like it can "
        "start again on node-2" in text
    )


def test_pods_that_a_deleted_taint_rule_no_longer_ends_are_named(planned):
    stored = k8s.taint_rule("NoExecute", driver="gpu.nvidia.com")
    claims = k8s.claiming(resourceClaimTemplateName="gpus")
    waiting = k8s.pod(name="waiting", priority=7, resourceClaims=claims)
    done = planned(objects=[*TAINTED, waiting, stored], options=["--delete", "devicetaintrule/repair"])
    assert "Would no longer end:\n- pod team-a/train\n" in done.stdout
    assert "Could start:\n- pod team-a/waiting on node-2\n" in done.stdout


def test_evictions_are_in_json(planned):
    done = planned(k8s.taint_rule("NoExecute", pool="node-1"), objects=TAINTED, options=["-o", "json"])
    (only,) = json.loads(done.stdout)["plan"]["evicted"]
    assert (only["name"], only["delaySeconds"], only["nodes"], only["devices"]) == (
        "pod team-a/train",
        30,
        ["node-2"],
        ["gpu.nvidia.com/node-1/gpu-0"],
    )


@pytest.fixture
def elsewhere(invoke, write):
    """Plan in a cluster whose operator runs in the namespace nvidia, as its ClusterPolicy says."""

    def elsewhere(*arguments):
        stored = config_map(whole="version: v1\n")
        stored["metadata"]["namespace"] = "nvidia"
        running = {**policy(), "status": {"namespace": "nvidia"}}
        cluster = write("cluster.yaml", *BASE, running, stored, gpu_node(), bound("a", gpus=8))
        return invoke("plan", "--cluster", cluster, *arguments)

    return elsewhere


@pytest.mark.parametrize("options", [[], ["-n", "team-a"]], ids=["all namespaces", "one namespace"])
def test_config_map_without_a_namespace_is_where_the_operator_runs(elsewhere, write, options):
    change = config_map(whole=time_slicing())
    del change["metadata"]["namespace"]
    done = elsewhere(*options, write("change.yaml", change))
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0] == "1 pod would get shares instead of whole GPUs."


def test_config_map_is_deleted_where_the_operator_runs(elsewhere):
    done = elsewhere("--delete", "configmap/plugin")
    assert "ConfigMap plugin: " in done.stdout
    assert done.stdout.endswith("[GA107]\n")


def test_first_line_counts_pods_that_would_get_other_gpus(planned):
    change = config_map(whole=time_slicing())
    done = planned(change, objects=[gpu_node(), bound("a", gpus=8)])
    assert done.exit_code == 1
    assert done.stdout.splitlines()[0] == "1 pod would get shares instead of whole GPUs."
    assert "Would get other GPUs:\n- pod team-a/a: 1 pod would get 8 quarters of NVIDIA-A100-SXM4-40GB" in done.stdout
    found = json.loads(planned(change, options=["-o", "json"], objects=[gpu_node(), bound("a", gpus=8)]).stdout)["plan"]
    assert (found["counts"]["changed"], found["changedPods"]) == (1, {"shares instead of whole GPUs": 1})
    assert found["fits"][0]["changes"] == [
        {
            "pods": 1,
            "before": "8 whole NVIDIA-A100-SXM4-40GB",
            "after": "8 quarters of NVIDIA-A100-SXM4-40GB (time-slicing)",
        }
    ]


def test_json_has_the_same_content(planned):
    change = config_map(whole=time_slicing(renameByDefault=True))
    done = planned(change, options=["-o", "json"], objects=[gpu_node(), bound("a")])
    found = json.loads(done.stdout)
    assert done.exit_code == 1
    assert list(found) == ["plan", "refusals", "warnings"]
    assert (found["refusals"], found["plan"]["isHarmless"]) == ([], False)
    (fit,) = found["plan"]["fits"]
    assert (fit["subject"], fit["outcome"], fit["before"]["room"], fit["after"]["room"]) == (
        "pod team-a/a",
        "lost",
        1,
        0,
    )
    assert found["plan"]["nodes"] == [
        {
            "node": "node-1",
            "before": "8 nvidia.com/gpu",
            "after": "32 nvidia.com/gpu.shared",
            "reasons": ["sharing: nvidia.com/gpu time-slicing by 4, renamed"],
            "interrupts": "",
            "refusal": "",
            "unknown": "",
            "certainty": "predicted",
            "estimates": [],
        }
    ]
    assert found["plan"]["counts"] == {"kept": 0, "changed": 0, "lost": 1, "gained": 0, "unknown": 0}


def test_refused_change_is_printed_as_by_review_and_not_planned(planned):
    done = planned(config_map(whole=time_slicing(1)))
    assert done.exit_code == 1
    assert done.stdout.startswith("change.yaml:1  ConfigMap gpu-operator/plugin  refused\n")
    assert "[GA132]" in done.stdout
    assert "NODE" not in done.stdout


def test_refused_change_is_one_mapping_in_json(planned):
    found = json.loads(planned(config_map(whole=time_slicing(1)), options=["-o", "json"]).stdout)
    assert (found["plan"], found["warnings"]) == (None, [])
    (refusal,) = found["refusals"]
    assert refusal.startswith("ConfigMap gpu-operator/plugin: Write 2 or more, or remove this entry")
    assert refusal.endswith("; data.whole.sharing.timeSlicing.resources[0].replicas [GA132]")


def test_refused_deletion_is_not_planned(planned):
    done = planned(options=["--delete", "configmap/plugin"])
    assert done.exit_code == 1
    assert done.stdout.startswith("- refused: ConfigMap plugin: Point spec.devicePlugin.config.name")
    assert done.stdout.rstrip().endswith("[GA107]")


def test_pods_of_one_namespace_are_compared(planned):
    pods = bound("a"), bound("b", namespace="team-b")
    change = gpu_node(labels={"nvidia.com/gpu.deploy.device-plugin": "false"})
    done = planned(change, options=["-n", "team-a"], objects=[gpu_node(), *pods])
    assert "pod team-a/a" in done.stdout
    assert "team-b" not in done.stdout


def test_quota_without_a_namespace_is_that_of_the_option(planned):
    document = quota(hard=0)
    del document["metadata"]["namespace"]
    done = planned(document, options=["-n", "team-a"], objects=[gpu_node(), bound("a")])
    assert "- GPUQuota team-a/gpu, limit all: a new limit, exceeded at once: 1 of 0 GPUs used" in done.stdout


def teams(gpus):
    """Two namespaces of team a and one of team c, with a pod each; a team has this many GPUs."""
    stored = {
        **quota(),
        "kind": "ClusterGPUQuota",
        "metadata": {"name": "research"},
        "spec": {"namespaceSelector": {}, "groupBy": "team", "limits": [{"name": "all", "gpus": gpus}]},
    }
    namespaces = [k8s.namespace(name, team=team) for name, team in (("team-a", "a"), ("team-b", "a"), ("team-c", "c"))]
    return [gpu_node(gpus=3), stored, *namespaces, *(bound(name, namespace=f"team-{name}") for name in "abc")]


def test_namespace_that_joins_another_team_is_planned_with_the_limits_of_both(planned):
    done = planned(k8s.namespace("team-b", team="c"), objects=teams(1))
    text = " ".join(done.stdout.split())
    assert done.exit_code == 1
    assert (
        "Quotas: - GPUQuotaGroup research.c, limit all: exceeded at once: 2 of 1 GPU used, before 1 of 1 GPU; it counts team-b "
        "too - pod team-c/c, when a pod of it starts again: "
        'needs 1 GPU, 0 of 1 left in limit "all"; exceeded quota: research.c [GA502] '
        "Quotas that allow more: - GPUQuotaGroup research.a, limit all: no longer exceeded: 1 of 1 GPU used, before 2 of 1 GPU; "
        "it no longer counts team-b - pod team-a/a, when a pod of it starts again: no longer refused; before, "
        'needs 1 GPU, 0 of 1 left in limit "all"; exceeded quota: research.a [GA502]'
    ) in text


def test_limits_that_suffice_for_a_namespace_that_joins_another_team_are_shown(planned):
    done = planned(k8s.namespace("team-b", team="c"), objects=teams(2))
    assert done.exit_code == 0
    assert " ".join(done.stdout.split()) == (
        "Nothing would break. "
        "Quotas that still suffice: "
        "- GPUQuotaGroup research.a, limit all: 1 of 2 GPUs used, before 2 of 2 GPUs; it no longer counts team-b "
        "- GPUQuotaGroup research.c, limit all: 2 of 2 GPUs used, before 1 of 2 GPUs; it counts team-b too "
        "Not affected: 3 workloads with 3 pods."
    )


def test_settings_of_a_file_count(planned, write):
    settings = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
    }
    file = write("settings.yaml", {**settings, "spec": {"quota": {"exemptNamespaces": ["team-a"]}}})
    done = planned(quota(hard=0), options=["--settings", file], objects=[gpu_node(), bound("a")])
    assert (done.exit_code, "Quotas" in done.stdout) == (0, False)


@pytest.mark.parametrize(
    ("documents", "options", "message"),
    [
        ([], [], "Error: nothing to plan: name files, folders, - for standard input, or --delete KIND/NAME"),
        (
            [bound("a")],
            [],
            "change.yaml:1:1: Pod is not configuration that a plan is about (ClusterGPUQuota, ClusterPolicy, ",
        ),
        ([{"apiVersion": "v1", "kind": "Node"}], [], "change.yaml:1:1: Node has no metadata.name; write the name of "),
        ([gpu_node(), gpu_node()], [], "change.yaml:23:1: Node node-1 is there twice, first in change.yaml:1; leave "),
        (["a: [b"], [], "change.yaml:1:"),
        ([], ["--delete", "pod/a"], "--delete pod/a: not KIND/NAME of configuration, such as deviceclass/gpu.nvidia"),
        ([], ["--delete", "node"], "--delete node: not KIND/NAME of configuration, such as deviceclass/gpu.nvidia.com"),
        ([], ["--delete", "node/nope"], "Error: Node nope does not exist, so it cannot be deleted"),
        ([gpu_node()], ["-n", "nope"], "Error: namespace nope does not exist"),
        ([gpu_node()], ["-n", "A B"], 'Error: invalid namespace name "A B"'),
        ([gpu_node()], ["nope.yaml"], "nope.yaml: no such file or directory"),
        ([gpu_node()], ["--kubeconfig", "x"], "Error: --cluster is for files, and --kubeconfig and --context are for "),
    ],
)
def test_bad_input_gets_a_sentence(planned, documents, options, message):
    done = planned(*documents, options=options)
    assert (done.exit_code, done.stdout) == (2, "")
    assert message in done.stderr


def test_cluster_without_nodes_is_no_cluster(invoke, write):
    cluster = write("cluster.yaml", bound("a"))
    done = invoke("plan", "--cluster", cluster, write("change.yaml", gpu_node()))
    assert done.exit_code == 2
    assert done.stderr.endswith("Error: nothing to compare with: the cluster has no Nodes, or you may not list them\n")


def test_change_is_read_from_standard_input(invoke, write):
    cluster = write("cluster.yaml", *BASE, gpu_node())
    done = invoke("plan", "--cluster", cluster, "-", stdin=json.dumps(gpu_node(**{GPU: "1"})))
    assert (done.exit_code, done.stdout) == (0, "Nothing would break.\n\nNot affected: 0 workloads with 0 pods.\n")


@pytest.mark.parametrize("width", [60, 100, 140])
def test_text_fits_the_terminal(planned, monkeypatch, width):
    monkeypatch.setattr("webhook.pages.text_report.terminal_width", lambda: width)
    change = config_map(whole=time_slicing(renameByDefault=True))
    lines = planned(change, objects=[gpu_node(), bound("a")]).stdout.splitlines()
    assert max(map(len, lines)) <= width
