"""Reviews that no API server sends get a clear answer."""

from __future__ import annotations

import json

import pytest

from policies.admission import review
from policies.admission.webhooks import ENTRIES
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView
from webhook.server.admission_review import BadReview, decode

JOB = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "train", "namespace": "team-a"},
    "spec": {
        "template": {"spec": {"containers": [{"name": "a", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}},
        "parallelism": 2,
    },
}
CLUSTER = ManifestsView(
    [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}},
        {
            "apiVersion": "gpu-admission.io/v1alpha1",
            "kind": "GPUQuota",
            "metadata": {"name": "gpu", "namespace": "team-a"},
            "spec": {"limits": [{"name": "all", "gpus": 1}]},
        },
    ]
)


def workload(document, before=None):
    operation = "CREATE" if before is None else "UPDATE"
    request = Request(
        document, before, operation, group="batch", kind="Job", namespace="team-a", name="train", entry="workloads"
    )
    return review(request, CLUSTER, DEFAULTS)


@pytest.mark.parametrize("before", [None, JOB], ids=["created", "updated"])
@pytest.mark.parametrize("kind", [None, 7, ["Job"], {}], ids=str)
def test_workload_without_kind_is_not_reviewed_and_says_so(kind, before):
    answer = workload({**JOB, "kind": kind}, before)
    assert answer.allowed
    assert answer.warnings == ("not reviewed: the object has no kind, so its pod templates cannot be found",)


@pytest.mark.parametrize("document", [[], "Job", 7], ids=str)
def test_workload_that_is_no_mapping_is_left_to_the_api_server(document):
    assert workload(document).findings == ()


def test_workload_that_had_no_kind_is_reviewed():
    assert [finding.rule.id for finding in workload(JOB, {**JOB, "kind": None}).findings]


@pytest.mark.parametrize(
    ("namespace", "shown"),
    [
        ("Team_A", '"Team_A"'),
        ("..", '".."'),
        ("a/b", '"a/b"'),
        ("a%2Fb", '"a%2Fb"'),
        ("team-a\n", '"team-a\\n"'),
        ("é", '"\\u00e9"'),
        ("x" * 64, f'"{"x" * 64}"'),
    ],
)
def test_namespace_that_cannot_exist_is_turned_down(namespace, shown):
    document = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u", "kind": {"kind": "Pod"}, "operation": "CREATE", "namespace": namespace, "object": {}},
    }
    with pytest.raises(BadReview) as caught:
        decode(json.dumps(document).encode())
    assert str(caught.value) == (
        f"The AdmissionReview cannot be read: request.namespace is {shown}, which is not the name of a namespace: "
        "at most 63 lower-case letters, digits and dashes, without a dash at either end."
    )


@pytest.mark.parametrize("entry", sorted(name for name, entry in ENTRIES.items() if "quota" in entry.concerns))
def test_charge_without_a_namespace_is_turned_down(entry):
    document = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {"uid": "u", "kind": {"kind": "Pod"}, "operation": "CREATE", "object": {}},
    }
    with pytest.raises(BadReview) as caught:
        decode(json.dumps(document).encode(), entry)
    assert str(caught.value) == (
        "The AdmissionReview cannot be read: request.namespace is missing; quotas are charged for what is in a namespace."
    )
