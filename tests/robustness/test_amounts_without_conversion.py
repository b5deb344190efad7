"""GPU amounts that the API server refuses are reported in namespaces without conversion too."""

from __future__ import annotations

import pytest

from policies.admission import review
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

NAMESPACES = ManifestsView(
    [
        {"kind": "Namespace", "metadata": {"name": "plain"}},
        {"kind": "Namespace", "metadata": {"name": "preview", "labels": {"gpu-admission.io/dra": "preview"}}},
    ]
)
LIMIT = "spec.containers[0].resources.limits[nvidia.com/gpu]"


def pod(limits=None, requests=None, **labels):
    amounts = {"limits": limits, "requests": requests}
    container = {
        "name": "train",
        "image": "train",
        "resources": {key: value for key, value in amounts.items() if value},
    }
    metadata = {"name": "train", "namespace": "plain", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


def findings(document, namespace="plain", **fields):
    decision = review(Request(document, namespace=namespace, **fields), NAMESPACES, DEFAULTS)
    return [(found.rule.id, str(found.severity), str(found.path), found.message) for found in decision.findings]


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        ("$GPUS", '"$GPUS" is not a quantity'),
        (0.5, "0.5 is not a whole number of devices"),
        (-1, "-1 is negative"),
    ],
)
def test_impossible_amount_is_refused(amount, said):
    assert findings(pod({"nvidia.com/gpu": amount})) == [("GA302", "deny", LIMIT, said)]


def test_empty_amount_is_warned_about_because_kubernetes_reads_it_as_none():
    assert findings(pod({"nvidia.com/gpu": None})) == [
        ("GA302", "warn", LIMIT, "is empty, which Kubernetes reads as 0: the container gets no GPU")
    ]


def test_request_without_a_limit_is_refused():
    assert [rule for rule, *_ in findings(pod(requests={"nvidia.com/gpu": 1}))] == ["GA303"]


def test_limit_alone_is_the_request_as_well():
    assert findings(pod({"nvidia.com/gpu": 2})) == []


def test_amount_of_another_vendor_is_not_judged():
    assert findings(pod({"example.com/gpu": "0.5"})) == []


def test_previewed_pod_is_reported_once():
    assert [rule for rule, *_ in findings(pod({"nvidia.com/gpu": 0.5}), "preview")] == ["GA302"]


def test_updated_pod_has_amounts_that_the_api_server_accepted():
    document = pod({"nvidia.com/gpu": 0.5})
    assert findings(document, old_object=document, operation="UPDATE") == []


def test_amount_in_kube_system_is_not_judged():
    assert [rule for rule, *_ in findings(pod({"nvidia.com/gpu": 0.5}), "kube-system")] == ["GA705"]


def test_entry_leaves_amounts_to_the_api_server():
    decision = review(
        Request(pod({"nvidia.com/gpu": 0.5}), namespace="plain", entry="place-pods"), NAMESPACES, DEFAULTS
    )
    assert decision.allowed
