"""PriorityClasses that the API server would refuse are refused offline."""

from __future__ import annotations

import pytest

from policies.admission import review
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from testbed import libyaml
from tests.findings import plain_text
from webhook.cli.shipped_files import read_examples
from webhook.cluster.manifests import ManifestsView


def decision(document):
    request = Request(document, group="scheduling.k8s.io", kind="PriorityClass", name="training")
    return review(request, ManifestsView(), DEFAULTS)


def priority_class(**fields):
    return {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "training"}, **fields}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"value": 1, "preemptionPolicy": "Always"},
            (
                'preemptionPolicy: Unsupported value: "Always": supported values: "PreemptLowerPriority", "Never"; '
                "correct the field"
            ),
        ),
        (
            {"value": 1_000_000_001},
            "value: maximum allowed value of a user defined priority is 1000000000; correct the field",
        ),
        ({"value": "high"}, 'value: Invalid value: "high": must be an integer; correct the field'),
    ],
    ids=["policy", "value", "text"],
)
def test_field_that_the_api_server_refuses_is_refused(fields, text):
    assert [plain_text(finding) for finding in decision(priority_class(**fields)).denials] == [text]


@pytest.mark.parametrize("fields", [{"value": -1}, {"value": 10**9, "preemptionPolicy": "Never"}, {}])
def test_priority_class_that_kubernetes_accepts_is_admitted(fields):
    answer = decision(priority_class(**fields))
    assert (answer.findings, answer.not_reviewed) == ((), "")


def test_classes_of_kubernetes_are_left_alone():
    system = priority_class(value=2_000_000_000)
    system["metadata"]["name"] = "system-cluster-critical"
    assert decision(system).findings == ()


@pytest.mark.parametrize("which", ["wrong", "right"])
def test_example_of_the_rule_is_true(which):
    example = libyaml.load(getattr(read_examples("GA420"), which))
    assert bool(decision(example).findings) is (which == "wrong")
