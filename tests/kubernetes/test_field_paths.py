"""Field paths: their text, and the values that they point to."""

import jsonpointer
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.objects import FieldPath, items_at, lookup, mappings_at, name_of, namespace_of


@pytest.mark.parametrize(
    ("steps", "printed"),
    [
        ([], ""),
        (["spec"], "spec"),
        (["spec", "containers", 0, "name"], "spec.containers[0].name"),
        (
            ["spec", "containers", 0, "resources", "limits", "nvidia.com/gpu"],
            "spec.containers[0].resources.limits[nvidia.com/gpu]",
        ),
        (["metadata", "labels", "gpu-admission.io/dra"], "metadata.labels[gpu-admission.io/dra]"),
        (["metadata", "labels", "app"], "metadata.labels.app"),
        (["metadata", "labels", "0abc"], "metadata.labels[0abc]"),
        (["metadata", "labels", ""], "metadata.labels[]"),
        ([0, "name"], "[0].name"),
    ],
)
def test_path_prints_as_kubernetes_prints_it(steps, printed):
    assert str(FieldPath(steps)) == printed


@pytest.mark.parametrize(
    ("steps", "pointer"),
    [
        ([], ""),
        (["spec", "containers", 0], "/spec/containers/0"),
        (["limits", "nvidia.com/gpu"], "/limits/nvidia.com~1gpu"),
        (["a~b"], "/a~0b"),
        (["~1"], "/~01"),
        ([""], "/"),
        (["a b", "%2F", '"'], '/a b/%2F/"'),
    ],
)
def test_pointer_is_escaped_as_rfc_6901_says(steps, pointer):
    assert FieldPath(steps).pointer() == pointer


@given(st.lists(st.text(max_size=5), max_size=4))
def test_pointer_finds_what_the_path_finds(keys):
    document = "found"
    for key in reversed(keys):
        document = {key: document, f"not {key}": None}
    assert jsonpointer.resolve_pointer(document, FieldPath(keys).pointer()) == lookup(document, keys) == "found"


def test_dividing_appends_a_step():
    assert FieldPath(["a"]) / "b" / 0 == FieldPath(["a", "b", 0])
    assert isinstance(FieldPath() / "b", FieldPath)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ((), {"a": [{"b": None}], "0": "key"}),
        (("a", 0), {"b": None}),
        (("a", -1), {"b": None}),
        (("a", 0, "b"), None),
        (("a", 0, "b", "c"), None),
        (("a", 1), None),
        (("a", -2), None),
        (("a", "0"), None),
        (("0",), "key"),
        ((0,), None),
        (("x", "y"), None),
    ],
)
def test_lookup_finds_the_value_or_none(path, found):
    assert lookup({"a": [{"b": None}], "0": "key"}, path) == found


@pytest.mark.parametrize("document", [None, "metadata", 1, [], [{}], True])
def test_lookup_in_a_value_that_is_not_a_mapping_returns_none(document):
    assert lookup(document, ("metadata", "name")) is None


@pytest.mark.parametrize("metadata", [None, "x", [], {}, {"name": 1, "namespace": []}])
def test_name_and_namespace_are_empty_where_there_is_none(metadata):
    assert name_of({"metadata": metadata}) == ""
    assert namespace_of({"metadata": metadata}) == ""


def test_name_and_namespace_are_read():
    document = {"metadata": {"name": "a", "namespace": "b"}}
    assert (name_of(document), namespace_of(document)) == ("a", "b")


@pytest.mark.parametrize(
    ("value", "items", "mappings"),
    [
        ([{"name": "a"}, "b", None], [{"name": "a"}, "b", None], [{"name": "a"}]),
        ([], [], []),
        (None, [], []),
        ("text", [], []),
        ({"0": "a"}, [], []),
    ],
)
def test_items_and_mappings_are_read_from_lists_only(value, items, mappings):
    document = {"spec": {"listed": value}}
    assert items_at(document, ("spec", "listed")) == items
    assert mappings_at(document, ("spec", "listed")) == mappings


def test_items_at_a_path_that_leads_nowhere_are_none():
    assert items_at({"spec": None}, ("spec", "listed")) == []
