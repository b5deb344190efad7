"""Facts beside the manifest that decide: cluster, namespaces, operation, user, settings."""

from __future__ import annotations

import json

import pytest

NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "team-b", "labels": {"gpu-admission.io/dra": "enabled"}},
}


def namespaces(results):
    return [result["object"]["namespace"] for result in results]


def test_namespace_of_the_object_comes_before_the_option(reviewed, write, pod):
    file = write("pods.yaml", pod("a", "team-legacy"), pod("b", None))
    assert namespaces(reviewed("-n", "team-a", file)) == ["team-legacy", "team-a"]


def test_namespace_is_default_where_nothing_names_one(reviewed, write, pod):
    (result,) = reviewed(write("pod.yaml", pod(namespace=None)))
    assert result["object"]["namespace"] == "default"
    assert result["templates"] == []


def test_object_that_is_neither_pod_nor_workload_gets_no_namespace(reviewed, write):
    assert namespaces(reviewed("-n", "team-a", write("namespace.yaml", NAMESPACE))) == [""]


def test_namespace_among_the_files_decides(invoke, write, pod):
    done = invoke("review", "-o", "json", write("pod.yaml", pod("a", "team-b")), write("namespace.yaml", NAMESPACE))
    assert done.exit_code == 0
    assert json.loads(done.stdout)[0]["templates"]


def test_namespace_among_the_files_decides_before_that_of_the_cluster(reviewed, write, pod):
    opted_out = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    assert reviewed(write("pod.yaml", opted_out, pod()))[1]["templates"] == []


def test_unknown_namespace_is_a_warning(invoke, write, pod):
    done = invoke("review", write("pod.yaml", pod()))
    assert done.exit_code == 0
    assert done.stdout.splitlines()[1:6] == [
        'Warning: Add the Namespace to the files, or give the cluster\'s with --cluster: namespace "team-a" is in none of the files, so the',
        "Warning:   pod is reviewed as not converted; metadata.namespace [GA324]",
        "  GA324 warn  pod.yaml:5:14  The namespace of a pod must be known",
        "      namespace: team-a",
        "                 ^",
    ]


def test_cluster_can_be_given_in_several_files(invoke, cluster, write, pod):
    files = [f"{cluster}/{name}.yaml" for name in ("namespaces", "deviceclasses", "version")]
    options = [argument for file in files for argument in ("--cluster", file)]
    done = invoke("review", *options, "-o", "json", write("pod.yaml", pod()))
    assert json.loads(done.stdout)[0]["templates"]


def test_template_of_the_option_s_namespace_is_seen(reviewed, write, pod):
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpu-c6e64bdbb49dc79c"},
        "spec": {"spec": {"devices": {"requests": []}}},
    }
    results = reviewed("-n", "team-a", write("pod.yaml", pod(namespace=None), template))
    assert [finding["rule"] for finding in results[0]["findings"]] == ["GA322"]


def test_update_is_judged_with_the_old_object(reviewed, write, pod):
    new, old = write("new.yaml", pod(gpus=2)), write("old.yaml", pod("other"), pod())
    (result,) = reviewed("--operation", "UPDATE", "--old", old, new)
    assert (result["verdict"], result["patch"]) == ("not reviewed", [])
    assert result["notReviewed"] == (
        "pods that exist are reviewed only if an image or an annotation for CDI changes, or if gpu-admission changed them "
        "and their spec changes"
    )


def test_update_that_names_gpus_is_reviewed(reviewed, write, pod):
    after = pod(gpus=0)
    after["metadata"]["annotations"] = {"nvidia.cdi.k8s.io/pod": "nvidia.com/gpu=all"}
    new, old = write("new.yaml", after), write("old.yaml", pod(gpus=0))
    (result,) = reviewed("--operation", "UPDATE", "--old", old, new)
    assert [finding["rule"] for finding in result["findings"]] == ["GA611"]
    assert result["verdict"] == "admitted"


def test_update_of_an_object_without_an_old_one_is_a_problem(invoke, write, pod):
    new, old = write("new.yaml", pod("a"), pod("b")), write("old.yaml", pod("b", "team-legacy"))
    done = invoke("review", "--operation", "UPDATE", "--old", old, new)
    assert done.exit_code == 2
    assert (
        done.stderr
        == """\
new.yaml:1:1: Pod team-a/a is updated, but the old objects do not contain it
new.yaml:14:1: Pod team-a/b is updated, but the old objects do not contain it
2 problems; nothing was done
"""
    )


@pytest.mark.parametrize(
    "arguments", [["--operation", "UPDATE"], ["--old", "old.yaml"], ["--operation", "DELETE", "--old", "x"]]
)
def test_update_and_old_go_together(invoke, write, pod, arguments):
    done = invoke("review", *arguments, write("pod.yaml", pod()))
    assert done.exit_code == 2
    assert done.stderr.endswith(
        "Error: --operation UPDATE and --old FILE go together: an update is judged by what it changes\n"
    )


@pytest.mark.parametrize("output", ["text", "json", "yaml", "patch"])
def test_delete_of_a_gpu_pod_is_not_reviewed(invoke, cluster, write, pod, output):
    done = invoke(
        "review", "--cluster", cluster, "--operation", "DELETE", "-o", output, write("pod.yaml", pod(gpus="0.5"))
    )
    assert (done.exit_code, done.stderr) == (0, "")
    if output == "text":
        assert done.stdout == (
            "pod.yaml:1  Pod team-a/train  not reviewed: no rule is about the operation DELETE on this kind\n"
            "\n1 object: 1 not reviewed\n"
        )
    if output == "yaml":
        assert done.stdout == ""


def test_delete_of_a_workload_reviews_no_pods(reviewed, write, pod):
    spec = {"template": {"spec": pod(gpus="0.5")["spec"]}}
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": spec}
    (result,) = reviewed("-n", "team-a", "--operation", "DELETE", write("deployment.yaml", document))
    assert (result["verdict"], result["findings"]) == ("not reviewed", [])


def test_user_is_accepted(reviewed, write, pod):
    (result,) = reviewed("--user", "alice", write("pod.yaml", pod()))
    assert result["verdict"] == "admitted"


def test_settings_change_severities(invoke, cluster, write, pod):
    settings = """\
apiVersion: gpu-admission.io/v1alpha1
kind: GPUAdmissionPolicy
metadata: {name: default}
spec:
  rules:
  - {rule: GA307, severity: warn, namespaces: ["team-*"]}
  conversion:
    unsatisfiable: deny
"""
    counting = write("count.yaml", pod("count", nodeSelector={"nvidia.com/gpu.count": "8"}))
    misspelt = write("misspelt.yaml", pod("misspelt", nodeSelector={"nvidia.com/gpu.product": "NVIDIA-H100"}))
    done = invoke(
        "review", "--cluster", cluster, "--settings", write("settings.yaml", settings), "-o", "json", counting, misspelt
    )
    assert done.exit_code == 1
    first, second = json.loads(done.stdout)
    assert (first["verdict"], first["templates"]) == ("admitted", [])
    assert [finding["severity"] for finding in second["findings"]] == ["deny"]
