"""`review` and `explain` apply a GPUAdmissionPolicy, LimitRanges and PriorityClasses of `--cluster`."""

from __future__ import annotations

import json

import pytest
import yaml
from click.testing import CliRunner

from testbed import libyaml
from webhook.cli import main

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
CONTAINER = {"name": "train", "image": "pytorch"}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "train", "namespace": "team-a"},
    "spec": {"containers": [CONTAINER]},
}
VISIBLE = {"containers": [{**CONTAINER, "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}]}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "node-1"},
    "status": {"allocatable": {"cpu": "8", "pods": "110"}},
}


def policy(severity):
    rules = [{"rule": "GA601", "severity": severity}]
    head = {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUAdmissionPolicy", "metadata": {"name": "default"}}
    return {**head, "spec": {"rules": rules}}


def limit_range(**limit):
    spec = {"limits": [{"type": "Container", **limit}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "gpus", "namespace": "team-a"}, "spec": spec}


def priority_class(name, value, *, default=True):
    head = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
    return {**head, "value": value, "globalDefault": default}


@pytest.fixture
def write(tmp_path, monkeypatch):
    """Write a file of documents."""
    monkeypatch.chdir(tmp_path)

    def write(name, *documents):
        (tmp_path / name).write_text(yaml.safe_dump_all(documents))
        return name

    return write


def run(*arguments):
    return CliRunner().invoke(main, arguments, prog_name="gpu-admission")


def severities(done):
    return [
        (finding["rule"], finding["severity"]) for result in json.loads(done.stdout) for finding in result["findings"]
    ]


def test_review_obeys_the_settings_of_the_cluster(write):
    cluster, pod = write("cluster.yaml", NAMESPACE, policy("deny")), write("pod.yaml", {**POD, "spec": VISIBLE})
    assert severities(run("review", "-o", "json", pod)) == [("GA601", "warn")]
    assert severities(run("review", "-o", "json", "--cluster", cluster, pod)) == [("GA601", "deny")]


def test_settings_option_wins_over_the_cluster(write):
    cluster, pod = write("cluster.yaml", NAMESPACE, policy("deny")), write("pod.yaml", {**POD, "spec": VISIBLE})
    settings = write("settings.yaml", policy("audit"))
    done = run("review", "-o", "json", "--cluster", cluster, "--settings", settings, pod)
    assert severities(done) == [("GA601", "audit")]


def test_explain_obeys_the_settings_of_the_cluster(write):
    cluster, pod = write("cluster.yaml", NAMESPACE, NODE, policy("deny")), write("pod.yaml", {**POD, "spec": VISIBLE})
    assert run("explain", "--cluster", write("bare.yaml", NAMESPACE, NODE), pod).exit_code == 0
    assert "GA601" in run("explain", "--cluster", cluster, pod).stdout


@pytest.mark.parametrize("command", ["review", "explain"])
def test_settings_of_the_cluster_that_are_invalid_are_warned_of(write, command):
    broken = {**policy("deny"), "spec": {"conversions": {}}}
    done = run(command, "--cluster", write("cluster.yaml", NAMESPACE, NODE, broken), write("pod.yaml", POD))
    assert done.stderr.startswith("Warning: GPUAdmissionPolicy default, generation 0, is invalid, using the built-in")


def test_policy_under_review_does_not_hold_for_the_others(write):
    done = run("review", "-o", "json", write("all.yaml", policy("deny"), {**POD, "spec": VISIBLE}))
    assert severities(done) == [("GA601", "warn")]


@pytest.mark.parametrize(
    "limit",
    [
        {"default": {"nvidia.com/gpu": "2"}, "defaultRequest": {"nvidia.com/gpu": "2"}},
        {"default": {"nvidia.com/gpu": "2"}},
        {"max": {"nvidia.com/gpu": "2"}},
    ],
)
def test_limit_range_gives_a_container_its_default(write, limit):
    cluster = write("cluster.yaml", NAMESPACE, limit_range(**limit))
    done = run("review", "-o", "yaml", "--cluster", cluster, write("pod.yaml", POD))
    (pod,) = libyaml.load_all(done.stdout)
    assert pod["spec"]["containers"][0]["resources"] == {
        "limits": {"nvidia.com/gpu": "2"},
        "requests": {"nvidia.com/gpu": "2"},
    }


def test_limit_range_gives_pod_templates_their_default(write):
    selector = {"matchLabels": {"app": "train"}}
    template = {"metadata": {"labels": {"app": "train"}}, "spec": POD["spec"]}
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": POD["metadata"],
        "spec": {"selector": selector, "template": template},
    }
    cluster = write("cluster.yaml", NAMESPACE, limit_range(default={"nvidia.com/gpu": 1}))
    (shown,) = libyaml.load_all(run("review", "-o", "yaml", "--cluster", cluster, write("a.yaml", deployment)).stdout)
    assert shown["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 1}


def test_explicit_zero_keeps_the_default_of_a_limit_range_away(write):
    container = {**CONTAINER, "resources": {"limits": {"nvidia.com/gpu": 0}}}
    cluster = write("cluster.yaml", NAMESPACE, limit_range(default={"nvidia.com/gpu": 1}))
    pod = write("pod.yaml", {**POD, "spec": {"containers": [container]}})
    (shown,) = libyaml.load_all(run("review", "-o", "yaml", "--cluster", cluster, pod).stdout)
    assert shown["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": 0}


def test_limit_range_of_another_namespace_changes_nothing(write):
    cluster = write("cluster.yaml", NAMESPACE, limit_range(default={"nvidia.com/gpu": 1}))
    pod = write("pod.yaml", {**POD, "metadata": {"name": "train", "namespace": "team-b"}})
    (shown,) = libyaml.load_all(run("review", "-o", "yaml", "--cluster", cluster, pod).stdout)
    assert shown["spec"] == POD["spec"]


@pytest.mark.parametrize(
    "containers", [[1], [{"name": "a", "resources": 1}], [{"name": "a", "resources": {"limits": 1}}]]
)
def test_malformed_container_is_refused_rather_than_filled(write, containers):
    cluster = write("cluster.yaml", NAMESPACE, limit_range(default={"nvidia.com/gpu": 1}))
    done = run("review", "--cluster", cluster, write("pod.yaml", {**POD, "spec": {"containers": containers}}))
    assert done.exit_code == 1


def test_explain_counts_the_gpu_that_a_limit_range_gives(write):
    cluster = write("cluster.yaml", NAMESPACE, NODE, limit_range(default={"nvidia.com/gpu": 1}))
    done = run("explain", "--cluster", cluster, write("pod.yaml", POD))
    assert done.exit_code == 1
    assert "nvidia.com/gpu" in done.stdout


def test_pod_without_class_gets_the_default_priority_class(write):
    classes = [priority_class("low", 10), priority_class("lowest", 1), priority_class("none", 0, default=False)]
    cluster = write("cluster.yaml", NAMESPACE, *classes)
    (shown,) = libyaml.load_all(run("review", "-o", "yaml", "--cluster", cluster, write("pod.yaml", POD)).stdout)
    assert shown["spec"]["priorityClassName"] == "lowest"


def test_pod_keeps_its_own_priority_class(write):
    cluster = write("cluster.yaml", NAMESPACE, priority_class("low", 10))
    pod = write("pod.yaml", {**POD, "spec": {**POD["spec"], "priorityClassName": "high"}})
    (shown,) = libyaml.load_all(run("review", "-o", "yaml", "--cluster", cluster, pod).stdout)
    assert shown["spec"]["priorityClassName"] == "high"


def test_limit_of_a_priority_class_refuses_a_pod_that_gets_the_class_by_default(write):
    limits = [{"name": "low", "gpus": 1, "selector": {"priorityClasses": ["low"]}}]
    quota = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUQuota",
        "metadata": {"name": "gpu", "namespace": "team-a"},
        "spec": {"limits": limits},
    }
    container = {**CONTAINER, "resources": {"limits": {"nvidia.com/gpu": 2}}}
    pod = write("pod.yaml", {**POD, "spec": {"containers": [container]}})
    without = write("without.yaml", NAMESPACE, quota)
    cluster = write("cluster.yaml", NAMESPACE, quota, priority_class("low", 10))
    assert run("review", "--cluster", without, pod).exit_code == 0
    assert run("review", "--cluster", cluster, pod).exit_code == 1
