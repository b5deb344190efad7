"""Cases: their object, cluster, settings, user and operation; and those that cannot be tried."""

from __future__ import annotations

import os

import pytest
import yaml

NAMESPACE = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "x", "labels": {"gpu-admission.io/dra": "enabled"}},
}


@pytest.fixture
def files(folder):
    """Write a file of objects."""

    def files(name, *objects):
        (folder / name).write_text(yaml.safe_dump_all(objects))
        return name

    return files


def test_object_of_a_file_is_chosen_by_its_name(failures, files, pod):
    other = {**pod, "metadata": {"name": "other", "namespace": "team-a"}}
    file = files("pods.yaml", pod, other)
    expect = {"patched": {"metadata": {"name": "other"}}}
    assert failures(expect, file=file, object="Pod/other") == []


def test_other_objects_of_the_file_are_in_the_cluster(failures, files, pod):
    pod["metadata"]["namespace"] = "x"
    expect = {"change": "converted", "findings": []}
    assert failures(expect, file=files("pods.yaml", NAMESPACE, pod), object="Pod/train") == []


def test_cluster_of_a_case_is_added_to_that_of_the_suite(failures, files, pod):
    pod["metadata"]["namespace"] = "x"
    expect = {"change": "converted", "findings": []}
    assert failures(expect, manifest=pod, cluster=[files("namespace.yaml", NAMESPACE)]) == []


def test_namespace_is_that_of_the_case_else_of_the_suite(failures, pod):
    del pod["metadata"]["namespace"]
    assert failures({"change": "converted"}, manifest=pod, namespace="team-a") == []
    assert failures({"change": "none"}, manifest=pod) == []


def test_settings_are_those_of_the_suite(run, folder, files, pod):
    policy = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
        "spec": {"rules": [{"rule": "GA601", "severity": "deny"}]},
    }
    env = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    pod["spec"]["containers"] = [{"name": "a", "image": "busybox", "env": env}]
    suite = {
        "apiVersion": "test.gpu-admission.io/v1alpha1",
        "kind": "Suite",
        "settings": files("settings.yaml", policy),
        "cases": [{"name": "a", "manifest": pod, "expect": {"verdict": "refused"}}],
    }
    files("suite.yaml", suite)
    done = run("suite.yaml")
    assert done.exit_code == 0, done.output


def test_deletion_is_about_the_object_that_is_there(failures, pod):
    assert failures({"verdict": "not reviewed"}, manifest=pod, operation="DELETE") == []


@pytest.mark.parametrize(
    ("user", "change"),
    [
        ({}, "converted"),
        ({"user": {"name": "alice"}}, "changed"),
        ({"user": {"name": "bob", "groups": ["ops"]}}, "changed"),
    ],
    ids=["nobody", "user", "group"],
)
def test_exemptions_are_those_of_the_user(failures, files, user, change):
    policy = {
        "apiVersion": "gpu-admission.io/v1alpha1",
        "kind": "GPUAdmissionPolicy",
        "metadata": {"name": "default"},
        "spec": {"exemptions": [{"users": ["alice"], "groups": ["ops"], "from": ["conversion"]}]},
    }
    assert failures({"change": change}, cluster=[files("settings.yaml", policy)], **user) == []


def test_whole_admission_review_is_a_case(failures, pod):
    # As an API server sends it: with the defaults filled in.
    pod["spec"]["containers"][0]["resources"]["requests"] = {"nvidia.com/gpu": 1}
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "namespace": "team-a",
            "operation": "CREATE",
            "userInfo": {"username": "alice"},
            "object": pod,
        },
    }
    assert failures({"change": "converted"}, manifest=review) == []


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ({"file": "none.yaml"}, "none.yaml: no such file or directory"),
        ({"file": "two.yaml"}, "suite.yaml:7:9: cases[0].file: the file has Pod/train and Namespace/x; choose one with object: KIND/NAME"),
        ({"file": "two.yaml", "object": "Pod/x"}, "suite.yaml:8:11: cases[0].object: the file has no Pod/x, of Pod/train and Namespace/x"),
        ({"file": "empty.yaml"}, "suite.yaml:7:9: cases[0].file: empty.yaml has no objects"),
        ({"manifest": {"kind": "Pod"}}, "suite.yaml:7:3: cases[0].manifest: has no apiVersion; every object of Kubernetes names one"),
        ({"manifest": {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}, "user": {"name": "a"}}, "suite.yaml:10:3: cases[0].user: an AdmissionReview has its own user; remove the field from the case"),
        ({"cluster": ["missing"]}, "missing: no such file or directory"),
        ({"file": "a" * 300}, f"{'a' * 300}: file name too long"),
        ({"manifest": {"apiVersion": "v1", "kind": "PodList", "items": []}}, "suite.yaml:7:3: cases[0].manifest: is a list; a case is about one object"),
        ({"file": "pipe"}, "suite.yaml:7:9: cases[0].file: pipe is not a regular file"),
        ({"cluster": ["/dev/zero"]}, "suite.yaml:6:3: cases[0]: /dev/zero is not a regular file"),
        ({"file": "-"}, "./-: no such file or directory"),
    ],
    ids=["missing-file", "several", "other-name", "empty", "no-version", "user-twice", "missing-cluster", "long", "list", "pipe", "device", "stdin"],
)  # fmt: skip
def test_case_that_cannot_be_tried_is_an_error(try_case, files, folder, pod, case, said):
    os.mkfifo(folder / "pipe")
    files("two.yaml", pod, NAMESPACE)
    files("empty.yaml")
    done = try_case(expect={"verdict": "admitted"}, **case)
    assert done.exit_code == 2
    assert done.stdout.splitlines()[1] == f"      {said}"
    assert done.stdout.endswith("1 case: 1 not tried\n")


def test_update_of_another_object_is_an_error(try_case, pod):
    old = {**pod, "metadata": {"name": "other", "namespace": "team-a"}}
    done = try_case(expect={"verdict": "admitted"}, operation="UPDATE", old=old)
    assert (done.exit_code, done.stdout.splitlines()[1]) == (
        2,
        "      suite.yaml:6:3: cases[0]: Pod team-a/train is updated, but the old objects do not contain it",
    )
