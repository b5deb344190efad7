"""The selector sets of documents: one for each request, and what an edit replaces."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.analyses.selectors import (
    AnalysisJSON,
    analysis_json,
    analyze,
    edited_selector_set,
    selector_set_of_expression,
    selector_sets_of,
)
from policies.kubernetes.objects import json_document
from policies.rules.settings import DEFAULTS
from tests.explain.conftest import claim, device_class, selecting, template
from tests.selectors.devices import cluster


def facts_of(document):
    return [(each.label, each.request, each.device_class, each.texts) for each in selector_sets_of(document)]


def test_claim_has_a_selection_for_each_request():
    exactly = {"deviceClassName": "gpu.nvidia.com"}
    document = claim()
    document["spec"]["devices"]["requests"] = [
        {"name": "one", "exactly": {**exactly, **selecting("a", "b")}},
        {"name": "two", "firstAvailable": [{"name": "large", **exactly, **selecting("c")}, {"name": "any", **exactly}]},
    ]
    assert facts_of(document) == [
        ("request one of ResourceClaim team-a/gpus", "one", "gpu.nvidia.com", ("a", "b")),
        ("request two/large of ResourceClaim team-a/gpus", "two/large", "gpu.nvidia.com", ("c",)),
        ("request two/any of ResourceClaim team-a/gpus", "two/any", "gpu.nvidia.com", ()),
    ]


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_versions_are_read(version):
    assert [each.texts for each in selector_sets_of(claim(selecting("a"), version=version))] == [("a",)]


def test_template_has_the_selections_of_its_claim():
    assert facts_of(template(selecting("a"))) == [
        ("request gpu of ResourceClaimTemplate team-a/gpus", "gpu", "gpu.nvidia.com", ("a",))
    ]


def test_class_is_one_selection():
    assert facts_of(device_class("mine", "a")) == [("DeviceClass mine", "", "", ("a",))]


@pytest.mark.parametrize(
    "document", [{}, {"kind": "Pod"}, {"kind": "ResourceClaim"}, {"kind": "DeviceClass", "spec": []}, {"kind": []}]
)
def test_other_documents_and_broken_ones_raise_nothing(document):
    assert [each.texts for each in selector_sets_of(document)] in ([], [()])


@pytest.mark.parametrize("make", [claim, template], ids=["claim", "template"])
def test_edit_replaces_the_selectors_of_one_request(make):
    document = make(selecting("a", "b"))
    (selector_set,) = selector_sets_of(document)
    edited = edited_selector_set(selector_set, "c")
    assert edited.texts == ("c",)
    assert [each.texts for each in selector_sets_of(edited.document)] == [("c",)]
    assert [each.texts for each in selector_sets_of(document)] == [("a", "b")]


def test_expression_is_a_selection():
    assert selector_set_of_expression("a").label == "the expression"
    of_class = selector_set_of_expression("a", "mine")
    assert (of_class.label, of_class.device_class) == ("the expression, for devices of class mine", "mine")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
REQUESTS = st.lists(
    JSON
    | st.fixed_dictionaries(
        {}, optional={"name": JSON, "exactly": JSON, "firstAvailable": JSON, "selectors": JSON, "deviceClassName": JSON}
    ),
    max_size=3,
)


@given(
    version=st.sampled_from(["v1", "v1beta1"]),
    kind=st.sampled_from(["ResourceClaim", "ResourceClaimTemplate", "DeviceClass"]),
    inner=JSON | st.fixed_dictionaries({"devices": st.fixed_dictionaries({"requests": REQUESTS})}),
    metadata=JSON,
)
def test_any_json_is_analyzed_and_edited(version, kind, inner, metadata):
    spec = {"spec": inner} if kind == "ResourceClaimTemplate" else inner
    document = {"apiVersion": f"resource.k8s.io/{version}", "kind": kind, "metadata": metadata, "spec": spec}
    for each in selector_sets_of(document):
        json.dumps(json_document(analysis_json(analyze(each, cluster(), DEFAULTS, "true")), AnalysisJSON))
