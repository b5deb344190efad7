"""The name of a template is the hash of its content: stable, because running workloads refer to it."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.admission import review
from policies.conversion.templates import ExactRequest, claim_template, is_ours
from policies.kubernetes.nodes import REQUIRED
from policies.nvidia.predicates import TextIn
from policies.rules.request import Request
from policies.rules.settings import DEFAULTS
from webhook.cluster.manifests import ManifestsView

# Sorted keys, no white space, no escapes but those of JSON, UTF-8: written by hand, to be hashed by anybody.
ONE_GPU = (
    '{"metadata":{"labels":{"gpu-admission.io/managed":"true"}},'
    '"spec":{"devices":{"requests":['
    '{"exactly":{"allocationMode":"ExactCount","count":1,"deviceClassName":"gpu.nvidia.com"},"name":"train"}'
    "]}}}"
)
TWO_KINDS = (
    '{"metadata":{"labels":{"gpu-admission.io/managed":"true"}},'
    '"spec":{"devices":{"requests":['
    '{"exactly":{"allocationMode":"ExactCount","capacity":{"requests":{"shares":"4"}},"count":2,'
    '"deviceClassName":"gpu.nvidia.com","selectors":['
    '{"cel":{"expression":"has(device.attributes[\\"gpu.nvidia.com\\"].productName) && '
    'device.attributes[\\"gpu.nvidia.com\\"].productName.replace(\\" \\", \\"-\\") == \\"Größe\\""}}'
    ']},"name":"a"},'
    '{"exactly":{"allocationMode":"ExactCount","count":1,"deviceClassName":"mig.nvidia.com"},"name":"b"}'
    "]}}}"
)


def name_of(canonical):
    return "gpu-" + hashlib.sha256(canonical.encode()).hexdigest()[:16]


def test_name_is_the_hash_of_the_canonical_spec():
    template = claim_template("team-a", [ExactRequest("train", "gpu.nvidia.com", 1)])
    assert template.name == name_of(ONE_GPU) == "gpu-c6e64bdbb49dc79c"


def test_name_covers_selectors_and_shares_in_utf_8():
    product = TextIn("productName", ("Größe",), "dashed")
    requests = [
        ExactRequest("a", "gpu.nvidia.com", 2, product, shares=4),
        ExactRequest("b", "mig.nvidia.com", 1),
    ]
    assert claim_template("team-a", requests).name == name_of(TWO_KINDS) == "gpu-f488bfda5505784b"


def test_name_does_not_depend_on_the_namespace():
    request = ExactRequest("train", "gpu.nvidia.com", 1)
    assert claim_template("team-a", [request]).name == claim_template("team-b", [request]).name


def test_name_depends_on_the_order_of_requests():
    one, two = ExactRequest("a", "gpu.nvidia.com", 1), ExactRequest("b", "gpu.nvidia.com", 1)
    assert claim_template("team-a", [one, two]).name != claim_template("team-a", [two, one]).name


SELECTOR = {
    "nvidia.com/gpu.family": "hopper",
    "nvidia.com/gpu.compute.major": "9",
    "nvidia.com/cuda.driver.major": "580",
}
FIRST = [
    {"key": "nvidia.com/gpu.memory", "operator": "Gt", "values": ["40000"]},
    {"key": "nvidia.com/gpu.product", "operator": "In", "values": ["A", "B", "C"]},
    {"key": "nvidia.com/cuda.runtime.major", "operator": "NotIn", "values": ["11", "12"]},
]
SECOND = [
    {"key": "nvidia.com/gpu.product", "operator": "Exists"},
    {"key": "nvidia.com/gpu.compute.minor", "operator": "Lt", "values": ["5"]},
]


def template_name(selector, terms):
    resources = {"limits": {"nvidia.com/gpu": 1}, "requests": {"nvidia.com/gpu": 1}}
    spec = {
        "containers": [{"name": "train", "resources": resources}],
        "nodeSelector": selector,
        "affinity": {"nodeAffinity": {REQUIRED[-1]: {"nodeSelectorTerms": terms}}},
    }
    decision = review(Request(object={"spec": spec}, entry="convert-pods"), ManifestsView(), DEFAULTS)
    return decision.templates[0].name


def terms_in_order(first, second):
    return [{"matchExpressions": first}, {"matchExpressions": second}]


@st.composite
def reordered(draw):
    """The same conditions as the pod above, in every order that means the same."""
    first = [
        {**expression, "values": draw(st.permutations(expression["values"]))}
        for expression in draw(st.permutations(FIRST))
    ]
    terms = draw(st.permutations(terms_in_order(first, draw(st.permutations(SECOND)))))
    twice = draw(st.sampled_from([[], terms[:1]]))
    return dict(draw(st.permutations(list(SELECTOR.items())))), [*terms, *twice]


@given(reordered())
def test_order_and_repetition_of_conditions_do_not_change_the_name(conditions):
    assert template_name(*conditions) == template_name(SELECTOR, terms_in_order(FIRST, SECOND))


def test_condition_has_one_name_in_node_selector_and_affinity():
    expressions = [{"key": key, "operator": "In", "values": [value]} for key, value in SELECTOR.items()]
    assert template_name(SELECTOR, []) == template_name({}, [{"matchExpressions": expressions}])


@pytest.mark.parametrize(
    ("change", "ours"),
    [
        ({}, True),
        ({"labels": {"gpu-admission.io/managed": "false"}}, False),
        ({"labels": None}, False),
        ({"name": "gpu-0123456789abcdef"}, False),
        ({"name": "gpus"}, False),
    ],
    ids=["made-by-conversion", "label-of-another-value", "no-label", "hash-of-another-content", "another-name"],
)
def test_template_is_ours_by_its_label_and_the_hash_in_its_name(change, ours):
    template = claim_template("team-a", [ExactRequest("train", "gpu.nvidia.com", 1)]).manifest()
    assert is_ours({**template, "metadata": {**template["metadata"], **change}}) is ours
