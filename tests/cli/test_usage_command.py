"""`gpu-admission usage` on files: what it prints and how it ends."""

from __future__ import annotations

import json

import pytest

from tests.cli.quota_files import AWAY, EXAMPLES, namespace
from tests.published import shared_device
from tests.usage.usage_objects import NOTHING, PRODUCT, claim, device, node, pod, resource_slice

BUSY = [
    argument
    for name in ("cluster", "cluster-in-use", "cluster-with-quota", "cluster-busy")
    for argument in ("--cluster", EXAMPLES / name)
]


def test_example_is_reported(run):
    done = run("usage", *BUSY, **AWAY)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (EXAMPLES / "usage" / "expected.txt").read_text()


def test_json_has_the_same_content(run):
    done = run("usage", *BUSY, "-o", "json", **AWAY)
    assert (done.returncode, done.stderr) == (0, "")
    reported = json.loads(done.stdout)
    parts = ["namespace", "products", "nodes", "namespaces", "holders", "stuckPods", "waiting", "problems", "notes"]
    assert list(reported) == parts
    totals = {(each["product"], each["profile"]): (each["total"], each["held"]) for each in reported["products"]}
    assert totals["NVIDIA-H100-80GB-HBM3", ""] == ("16", "12")
    assert totals["NVIDIA-A100-SXM4-80GB", "1g.10gb"] == ("11", "3")
    assert reported["holders"][0]["devices"][0]["names"] == [f"gpu-{number}" for number in (3, 4, 5, 6, 7, 0, 1, 2)]


@pytest.mark.parametrize(
    ("by", "first", "others"),
    [
        ("product", "GPUS ", ("NODE ", "NAMESPACE ", "HELD BY ")),
        ("node", "NODE ", ("NAMESPACE ", "HELD BY ")),
        ("namespace", "NAMESPACE ", ("NODE ", "HELD BY ")),
        ("pod", "HELD BY ", ("NAMESPACE ",)),
    ],
)
def test_one_table_is_shown_where_one_is_named(invoke, by, first, others):
    lines = invoke("usage", *BUSY, "--by", by).stdout.splitlines()
    assert sum(line.startswith(first) for line in lines) == 1
    assert not any(line.startswith(others) for line in lines)


def test_one_namespace_is_shown_with_what_others_leave(invoke):
    lines = invoke("usage", *BUSY, "-n", "team-vision").stdout.splitlines()
    assert (
        "NVIDIA-H100-80GB-HBM3              [#####==========.....]     16    12             4     4         0" in lines
    )
    assert not any(line.startswith(("NAMESPACE", "team-legacy")) for line in lines)
    assert any(line.startswith("team-vision/pretrain-0 ") for line in lines)


def test_namespace_without_gpus_is_reported(invoke):
    done = invoke(
        "usage", "--cluster", EXAMPLES / "cluster", "--cluster", EXAMPLES / "cluster-with-quota", "-n", "team-a"
    )
    assert (done.exit_code, done.stdout.splitlines()[-1]) == (0, "No pod or claim of namespace team-a holds a GPU.")


def test_facts_missing_from_the_files_are_noted(invoke):
    done = invoke("usage", "--cluster", EXAMPLES / "cluster", "-o", "json")
    reported = json.loads(done.stdout)
    assert (done.exit_code, reported["products"][0]["free"]) == (1, None)
    assert reported["notes"] == [
        "the files have no Pods, so it is unknown how many GPUs of device plugins are held, and which nodes are full",
        "the files have no ResourceClaims, so it is unknown how many GPUs of the DRA driver are held",
    ]


def test_unknown_numbers_are_question_marks(invoke):
    lines = invoke("usage", "--cluster", EXAMPLES / "cluster").stdout.splitlines()
    assert lines[0] == "It is unknown which pods wait for GPUs, because pods are unknown."
    assert lines[2] == "28 GPUs: ? held, ? free, ? free but unusable"
    assert "Tesla-T4                           [????????????????????]      2     ?     ?         ?" in lines


def test_more_held_than_exist_fails(invoke, write):
    file = write("all.yaml", *NOTHING, node(gpus=1), pod(gpus=2))
    done = invoke("usage", "--cluster", file)
    assert done.exit_code == 1
    lines = done.stdout.splitlines()
    assert f"{PRODUCT}  [####################]      1  1 (1 twice)     0         0" in lines
    assert lines[-1] == f"Warning: 1 of 1 {PRODUCT} of node node-1 is given out twice."


def test_cluster_without_gpus_is_reported(invoke, write):
    done = invoke("usage", "--cluster", write("all.yaml", *NOTHING))
    assert (done.exit_code, done.stdout) == (0, "No pod waits for GPUs.\n\nThe cluster has no GPUs.\n")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            ["--cluster", "x", "--context", "y"],
            "--cluster is for files, and --kubeconfig and --context are for a running cluster",
        ),
        (["-n", "../a b"], 'invalid namespace name "../a b"'),
        (["--cluster", "all.yaml", "-n", "team-x"], "namespace team-x does not exist"),
        (
            ["--cluster", "namespace.yaml"],
            (
                "nothing to show: no Node and no ResourceSlice in namespace.yaml; kubectl get nodes,resourceslices -o yaml "
                "prints those of a cluster"
            ),
        ),
        (["--kubeconfig", "/nonexistent/config"], "kubeconfig file /nonexistent/config not found"),
    ],
    ids=["files and cluster", "impossible namespace", "no such namespace", "no nodes", "no kubeconfig"],
)
def test_wrong_usage_is_reported(invoke, write, arguments, expected):
    write("all.yaml", namespace(), node())
    write("namespace.yaml", namespace())
    done = invoke("usage", *arguments)
    assert (done.exit_code, done.stdout, done.stderr.splitlines()[-1]) == (2, "", f"Error: {expected}")


def test_files_that_cannot_be_read_are_reported(invoke, write):
    done = invoke("usage", "--cluster", write("bad.yaml", "a: ["))
    assert (done.exit_code, done.stdout) == (2, "")
    assert done.stderr.endswith("problem; nothing was done\n")


@pytest.mark.parametrize(("setting", "held", "is_noted"), [("", "1", True), ("1/8", "1/4", False)])
def test_gpus_that_are_shared_without_limit_count_as_the_settings_in_the_files_say(
    invoke, write, setting, held, is_noted
):
    slices = resource_slice([shared_device(device(), "unlimited")])
    claims = [claim("gpu-0", name=name, shareID=name, consumedCapacity={"memory": "0"}) for name in ("a", "b")]
    settings = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
        "spec": {"quota": {"unlimitedShare": setting}},
    }
    file = write("all.yaml", *NOTHING, node(), slices, *claims, settings)
    reported = json.loads(invoke("usage", "--cluster", file, "-o", "json").stdout)
    assert [each["held"] for each in reported["products"]] == [held]
    note = (
        "pods can also get GPUs that are held: a claim counts as a whole GPU, because the driver shares GPUs without limit; "
        "set quota.unlimitedShare of the GPUAdmissionPolicy to count less"
    )
    assert reported["notes"] == ([note] if is_noted else [])
