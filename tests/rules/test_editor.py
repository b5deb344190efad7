"""The editor: the effect of each operation on the document, and the patch that it records."""

import copy

import pytest

from policies.kubernetes.objects import FieldPath
from policies.rules.patch import Editor


def path(*steps):
    return FieldPath(steps)


def test_untouched_editor_is_false_and_has_nothing_to_say():
    editor = Editor({"spec": {}})
    assert not editor
    assert editor.operations == []


def test_changed_editor_is_true():
    editor = Editor({})
    editor.add(path("a"), 1)
    assert editor


def test_add_sets_a_key():
    editor = Editor({"metadata": {}})
    editor.add(path("metadata", "name"), "train")
    assert editor.document == {"metadata": {"name": "train"}}
    assert editor.operations == [{"op": "add", "path": "/metadata/name", "value": "train"}]


def test_add_makes_missing_parents_in_the_same_operation():
    editor = Editor({"kind": "Pod"})
    editor.add(path("metadata", "annotations", "gpu-admission.io/converted"), "{}")
    assert editor.document["metadata"] == {"annotations": {"gpu-admission.io/converted": "{}"}}
    assert editor.operations == [
        {"op": "add", "path": "/metadata", "value": {"annotations": {"gpu-admission.io/converted": "{}"}}}
    ]


def test_add_replaces_null():
    editor = Editor({"spec": {"nodeName": None}})
    editor.add(path("spec", "nodeName"), "a")
    assert editor.document == {"spec": {"nodeName": "a"}}
    assert editor.operations == [
        {"op": "test", "path": "/spec/nodeName", "value": None},
        {"op": "replace", "path": "/spec/nodeName", "value": "a"},
    ]


def test_add_takes_a_parent_that_is_null_for_missing():
    editor = Editor({"metadata": {"labels": None}})
    editor.add(path("metadata", "labels", "a"), "b")
    assert editor.document == {"metadata": {"labels": {"a": "b"}}}
    assert editor.operations == [
        {"op": "test", "path": "/metadata/labels", "value": None},
        {"op": "replace", "path": "/metadata/labels", "value": {"a": "b"}},
    ]


@pytest.mark.parametrize("value", [0, False, "", [], {}, "text"])
def test_add_refuses_to_overwrite(value):
    editor = Editor({"spec": {"x": value}})
    with pytest.raises(KeyError, match=r"spec\.x"):
        editor.add(path("spec", "x"), 1)
    assert editor.document == {"spec": {"x": value}}
    assert not editor


def test_add_reaches_through_lists():
    editor = Editor({"containers": [{"name": "a"}, {"name": "b"}]})
    editor.add(path("containers", 1, "resources", "claims"), [])
    assert editor.document == {"containers": [{"name": "a"}, {"name": "b", "resources": {"claims": []}}]}
    assert editor.operations == [{"op": "add", "path": "/containers/1/resources", "value": {"claims": []}}]


def test_extend_adds_every_item_at_the_end():
    editor = Editor({"tolerations": [{"key": "a"}]})
    editor.extend(path("tolerations"), [{"key": "b"}, {"key": "c"}])
    assert editor.document == {"tolerations": [{"key": "a"}, {"key": "b"}, {"key": "c"}]}
    assert editor.operations == [
        {"op": "add", "path": "/tolerations/-", "value": {"key": "b"}},
        {"op": "add", "path": "/tolerations/-", "value": {"key": "c"}},
    ]


@pytest.mark.parametrize("document", [{}, {"spec": {}}, {"spec": None}])
def test_extend_makes_a_missing_list(document):
    editor = Editor(document)
    editor.extend(path("spec", "tolerations"), [1])
    assert editor.document == {"spec": {"tolerations": [1]}}


def test_extend_fills_an_empty_list():
    editor = Editor({"list": []})
    editor.extend(path("list"), [1])
    assert editor.operations == [{"op": "add", "path": "/list/-", "value": 1}]


@pytest.mark.parametrize("document", [{}, {"list": None}, {"list": [1]}])
def test_extend_by_nothing_changes_nothing(document):
    editor = Editor(document)
    editor.extend(path("list"), [])
    assert not editor
    assert editor.document == document


def test_replace_tests_what_it_replaces():
    editor = Editor({"limits": {"nvidia.com/gpu": "1"}})
    editor.replace(path("limits", "nvidia.com/gpu"), "2")
    assert editor.document == {"limits": {"nvidia.com/gpu": "2"}}
    assert editor.operations == [
        {"op": "test", "path": "/limits/nvidia.com~1gpu", "value": "1"},
        {"op": "replace", "path": "/limits/nvidia.com~1gpu", "value": "2"},
    ]


def test_remove_tests_what_it_takes_away():
    editor = Editor({"limits": {"cpu": "1", "nvidia.com/gpu": 1}})
    editor.remove(path("limits", "nvidia.com/gpu"))
    assert editor.document == {"limits": {"cpu": "1"}}
    assert editor.operations == [
        {"op": "test", "path": "/limits/nvidia.com~1gpu", "value": 1},
        {"op": "remove", "path": "/limits/nvidia.com~1gpu"},
    ]


def test_remove_takes_a_list_item_and_moves_the_rest_up():
    editor = Editor({"terms": ["a", "b", "c"]})
    editor.remove(path("terms", 0))
    editor.remove(path("terms", 0))
    assert editor.document == {"terms": ["c"]}
    assert [operation["value"] for operation in editor.operations if operation["op"] == "test"] == ["a", "b"]


def test_remove_takes_null_away():
    editor = Editor({"a": None})
    editor.remove(path("a"))
    assert editor.document == {}


@pytest.mark.parametrize("edit", [Editor.remove, lambda editor, where: editor.replace(where, 1)])
def test_replace_and_remove_refuse_what_is_not_there(edit):
    editor = Editor({"a": {}})
    with pytest.raises(KeyError):
        edit(editor, path("a", "b"))
    assert not editor
    assert editor.document == {"a": {}}


def test_original_document_and_values_stay_as_they_were():
    document = {"spec": {"list": [{"a": 1}], "keep": {"x": []}}, "status": {}}
    before = copy.deepcopy(document)
    value = {"labels": {}}
    editor = Editor(document)
    editor.add(path("metadata"), value)
    editor.add(path("metadata", "labels", "a"), "b")
    editor.replace(path("spec", "list", 0, "a"), 2)
    editor.extend(path("spec", "list"), [3])
    editor.remove(path("status"))
    assert document == before
    assert value == {"labels": {}}
    assert editor.document == {
        "spec": {"list": [{"a": 2}, 3], "keep": {"x": []}},
        "metadata": {"labels": {"a": "b"}},
    }


def test_what_is_not_on_the_way_to_a_change_is_shared():
    document = {"spec": {"containers": [{"name": "a"}, {"name": "b"}]}, "status": {}}
    editor = Editor(document)
    editor.replace(path("spec", "containers", 0, "name"), "c")
    assert editor.document["status"] is document["status"]
    assert editor.document["spec"]["containers"][1] is document["spec"]["containers"][1]


def test_part_that_stands_in_two_places_is_changed_in_one():
    shared = {"limits": {"nvidia.com/gpu": 1}}
    editor = Editor({"containers": [{"resources": shared}, {"resources": shared}]})
    editor.replace(path("containers", 0, "resources", "limits", "nvidia.com/gpu"), 2)
    editor.replace(path("containers", 1, "resources", "limits", "nvidia.com/gpu"), 3)
    first, second = editor.document["containers"]
    assert first == {"resources": {"limits": {"nvidia.com/gpu": 2}}}
    assert second == {"resources": {"limits": {"nvidia.com/gpu": 3}}}
    assert shared == {"limits": {"nvidia.com/gpu": 1}}


def test_container_is_copied_for_the_first_change_only():
    editor = Editor({"spec": {"containers": [{"name": "a"}, {"name": "b"}]}})
    editor.replace(path("spec", "containers", 0, "name"), "c")
    document = editor.document
    containers = document["spec"]["containers"]
    editor.replace(path("spec", "containers", 1, "name"), "d")
    assert editor.document is document
    assert editor.document["spec"]["containers"] is containers


def test_tests_keep_the_values_of_their_moment():
    editor = Editor({"a": {"b": {"c": 1}}})
    editor.replace(path("a", "b", "c"), 2)
    old = editor.document["a"]
    editor.replace(path("a"), {"moved": old["b"]})
    editor.replace(path("a", "moved", "c"), 3)
    assert editor.operations[2] == {"op": "test", "path": "/a", "value": {"b": {"c": 2}}}
    assert editor.operations[3] == {"op": "replace", "path": "/a", "value": {"moved": {"c": 2}}}


def test_operations_keep_the_values_of_their_moment():
    editor = Editor({})
    editor.add(path("a"), {"x": 1})
    editor.replace(path("a", "x"), 2)
    assert editor.operations[0] == {"op": "add", "path": "/a", "value": {"x": 1}}
