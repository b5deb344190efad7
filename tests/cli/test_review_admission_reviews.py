"""Whole AdmissionReviews: their own namespace, operation, user and old object count."""

from __future__ import annotations

import json

import pytest

from webhook.cli.manifest_reader import ManifestReader
from webhook.cli.subjects import Circumstances, SubjectReader


def admission_review(document, *, operation="CREATE", old=None, group="", namespace="team-a", **request):
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": group, "version": "v1", "kind": (document or old)["kind"]},
            "operation": operation,
            "namespace": namespace,
            "userInfo": {"username": "alice", "groups": ["research"]},
            "object": document,
            "oldObject": old,
            **request,
        },
    }


def with_requests(document):
    for container in document["spec"]["containers"]:
        container["resources"]["requests"] = dict(container["resources"]["limits"])
    return document


def test_pod_of_a_review_is_reviewed_in_the_review_s_namespace(reviewed, write, pod):
    document = admission_review(with_requests(pod(namespace=None)))
    (result,) = reviewed("-n", "team-legacy", write("review.json", json.dumps(document)))
    assert result["object"] == {"apiVersion": "v1", "kind": "Pod", "namespace": "team-a", "name": "train"}
    assert result["templates"]


def test_pod_of_a_review_gets_no_defaults_because_it_has_them(reviewed, write, pod):
    (result,) = reviewed(write("review.json", json.dumps(admission_review(pod()))))
    assert [finding["rule"] for finding in result["findings"]] == ["GA303"]


def test_template_in_a_review_gets_defaults_because_it_has_none(reviewed, write, pod):
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    spec = {"selector": {"matchLabels": labels}, "template": template}
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec}
    (result,) = reviewed(write("review.json", json.dumps(admission_review(document, group="apps"))))
    assert result["verdict"] == "admitted"
    assert result["templates"]


def test_template_of_an_object_without_a_version_is_read(reviewed, write, pod):
    document = {"kind": "PodTemplate", "metadata": {"name": "a"}, "template": {"spec": pod()["spec"]}}
    (result,) = reviewed(write("review.json", json.dumps(admission_review(document))))
    assert result["templates"]
    assert result["object"]["apiVersion"] == ""


def test_finding_in_a_review_has_its_place_in_the_file(reviewed, write, pod):
    document = with_requests(pod(nodeSelector={"nvidia.com/gpu.count": "8"}))
    text = json.dumps(admission_review(document), indent=1)
    (result,) = reviewed(write("review.json", text))
    (finding,) = result["findings"]
    assert finding["path"] == "spec.nodeSelector[nvidia.com/gpu.count]"
    assert '"nvidia.com/gpu.count": "8"' in text.splitlines()[finding["line"] - 1]
    assert text.splitlines()[result["source"]["line"] - 1] == '  "object": {'


def test_reviews_in_yaml_and_beside_other_objects_are_read(reviewed, write, pod):
    results = reviewed(write("all.yaml", pod("a"), admission_review(with_requests(pod("b")))))
    assert [result["object"]["name"] for result in results] == ["a", "b"]


def test_delete_of_a_review_is_a_delete(reviewed, write, pod):
    document = admission_review(None, operation="DELETE", old=pod(gpus="0.5"), name="train")
    (result,) = reviewed(write("review.json", json.dumps(document)))
    assert result["verdict"] == "not reviewed"
    assert result["object"]["name"] == "train"


def test_request_of_a_review_is_its_own(write, pod):
    write("review.json", json.dumps(admission_review(pod(gpus=2), operation="UPDATE", old=pod())))
    reader = ManifestReader()
    (subject,) = SubjectReader(Circumstances(namespace="team-b"), reader.problems).subjects(
        reader.manifests(["review.json"])
    )
    assert subject.request.operation == "UPDATE"
    assert subject.request.old_object == pod()
    assert subject.request.user.username == "alice"
    assert subject.request.user.groups == ("research",)


def test_user_of_the_option_is_the_user_of_the_request(write, pod):
    from policies.rules.request import UserInfo

    reader = ManifestReader()
    manifests = reader.manifests([write("pod.yaml", pod())])
    (subject,) = SubjectReader(Circumstances(user=UserInfo("bob")), reader.problems).subjects(manifests)
    assert subject.request.user.username == "bob"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"request": None}, "The AdmissionReview has no request"),
        (
            {"apiVersion": "admission.k8s.io/v1beta1"},
            (
                'The AdmissionReview has another version: apiVersion is "admission.k8s.io/v1beta1", '
                'not "admission.k8s.io/v1"; set admissionReviewVersions to [v1]'
            ),
        ),
    ],
)
def test_review_that_cannot_be_understood_is_a_problem(invoke, write, pod, change, problem):
    document = {**admission_review(pod()), **change}
    done = invoke("review", write("review.json", json.dumps(document)), "missing.yaml")
    assert done.exit_code == 2
    assert (
        done.stderr
        == f"missing.yaml: no such file or directory\nreview.json:1:1: {problem}\n2 problems; nothing was done\n"
    )
