"""Defaults of the API server for pods, as far as decisions read them."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.objects import fill_nulls
from policies.kubernetes.pod_templates import with_defaults


def pod(**resources):
    return {"spec": {"containers": [{"name": "train", "resources": resources}]}}


def resources_of(document):
    return document["spec"]["containers"][0]["resources"]


def test_limits_are_copied_to_the_requests():
    assert resources_of(with_defaults(pod(limits={"cpu": "4", "nvidia.com/gpu": 1}))) == {
        "limits": {"cpu": "4", "nvidia.com/gpu": 1},
        "requests": {"cpu": "4", "nvidia.com/gpu": 1},
    }


def test_requests_that_are_there_stay():
    document = pod(limits={"cpu": "4", "nvidia.com/gpu": 1}, requests={"cpu": "2", "memory": "1Gi"})
    assert resources_of(with_defaults(document))["requests"] == {"cpu": "2", "memory": "1Gi", "nvidia.com/gpu": 1}


def test_null_requests_count_as_missing():
    assert resources_of(with_defaults(pod(limits={"cpu": "4"}, requests=None)))["requests"] == {"cpu": "4"}


def test_init_containers_get_defaults_too():
    document = {"spec": {"initContainers": [{"resources": {"limits": {"cpu": 1}}}], "containers": [{}]}}
    assert with_defaults(document) == {
        "spec": {
            "initContainers": [{"resources": {"limits": {"cpu": 1}, "requests": {"cpu": 1}}}],
            "containers": [{}],
        }
    }


def test_ephemeral_containers_get_none():
    document = {"spec": {"ephemeralContainers": [{"resources": {"limits": {"cpu": 1}}}], "containers": [{}]}}
    assert with_defaults(document) is document


def test_requests_without_limits_stay_alone():
    document = pod(requests={"cpu": "4"})
    assert with_defaults(document) is document


def test_pod_with_nothing_to_fill_in_is_the_same_object():
    document = pod(limits={"cpu": "4"}, requests={"cpu": "4"})
    assert with_defaults(document) is document


@pytest.mark.parametrize("limits", [None, {}, [], "text", 1])
def test_limits_that_hold_nothing_make_no_requests(limits):
    document = pod(limits=limits)
    assert with_defaults(document) is document


def test_requests_of_another_shape_stay_as_they_are():
    document = pod(limits={"cpu": 1}, requests=["cpu"])
    assert with_defaults(document) is document


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
AMOUNTS = st.dictionaries(st.sampled_from(["cpu", "memory", "nvidia.com/gpu"]), st.integers(0, 9)) | JSON
CONTAINERS = st.lists(
    st.fixed_dictionaries(
        {}, optional={"resources": st.fixed_dictionaries({}, optional={"limits": AMOUNTS, "requests": AMOUNTS}) | JSON}
    )
    | JSON,
    max_size=3,
)
PODS = st.fixed_dictionaries(
    {},
    optional={
        "spec": st.fixed_dictionaries({}, optional={"containers": CONTAINERS | JSON, "initContainers": CONTAINERS})
        | JSON
    },
)


@given(PODS)
def test_pod_is_not_changed_in_place(document):
    before = copy.deepcopy(document)
    with_defaults(document)
    assert document == before


@given(PODS)
def test_defaults_of_defaults_are_the_same(document):
    once = with_defaults(document)
    assert with_defaults(once) is once


def marked(text):
    """A Deployment with a value in each map of text that the API server decodes."""
    metadata = {"labels": {"a": text}, "annotations": {"b": text, "c": "d"}}
    spec = {"containers": [{"name": "train"}], "nodeSelector": {"node-role.kubernetes.io/gpu": text}}
    template = {"metadata": metadata, "spec": spec}
    return {"kind": "Deployment", "metadata": {**metadata, "name": "x"}, "spec": {"template": template}}


def test_null_in_maps_of_text_is_decoded_as_empty_text():
    given_list, expected = (
        {"kind": "List", "items": [marked(text), {"kind": "ConfigMap", "data": {"any": text}}]} for text in (None, "")
    )
    before = copy.deepcopy(given_list)
    assert fill_nulls(given_list) == expected
    assert given_list == before


@pytest.mark.parametrize(
    "document",
    [
        marked("text"),
        {"kind": "NVIDIADriver", "metadata": {"labels": None}, "spec": {"nodeSelector": {"a": None}}},
        {"kind": "ClusterPolicy", "spec": {"daemonsets": {"labels": {"a": None}}}},
        {"kind": "X", "spec": {"metadata": {"labels": [None], "name": None}}},
    ],
    ids=["text", "other selector", "other labels", "no map"],
)
def test_document_without_such_a_null_is_returned_itself(document):
    assert fill_nulls(document) is document
