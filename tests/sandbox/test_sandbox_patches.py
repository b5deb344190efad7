import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from webhook.sandbox.patches import BadPatch, PatchFailed, apply_json_patch, apply_merge_patch

DOCUMENT = {"a": {"b": 1, "x/y": 2, "m~n": 3}, "list": [1, 2, 3]}


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        pytest.param({"op": "add", "path": "/c", "value": 1}, {**DOCUMENT, "c": 1}, id="add"),
        pytest.param({"op": "add", "path": "/list/1", "value": 9}, {**DOCUMENT, "list": [1, 9, 2, 3]}, id="insert"),
        pytest.param({"op": "add", "path": "/list/-", "value": 9}, {**DOCUMENT, "list": [1, 2, 3, 9]}, id="append"),
        pytest.param({"op": "add", "path": "", "value": 9}, 9, id="whole"),
        pytest.param({"op": "remove", "path": "/list/0"}, {**DOCUMENT, "list": [2, 3]}, id="remove-item"),
        pytest.param({"op": "remove", "path": "/a/x~1y"}, {**DOCUMENT, "a": {"b": 1, "m~n": 3}}, id="slash"),
        pytest.param(
            {"op": "replace", "path": "/a/m~0n", "value": 0}, {**DOCUMENT, "a": {**DOCUMENT["a"], "m~n": 0}}, id="tilde"
        ),
        pytest.param({"op": "copy", "from": "/list", "path": "/c"}, {**DOCUMENT, "c": [1, 2, 3]}, id="copy"),
        pytest.param({"op": "move", "from": "/a", "path": "/c"}, {"list": [1, 2, 3], "c": DOCUMENT["a"]}, id="move"),
        pytest.param({"op": "test", "path": "/a/b", "value": 1}, DOCUMENT, id="test"),
        pytest.param({"op": "test", "path": "/absent", "value": None}, DOCUMENT, id="test-absent"),
    ],
)
def test_json_patch_applies(operation, expected):
    assert apply_json_patch(DOCUMENT, [operation]) == expected


@pytest.mark.parametrize(
    ("operation", "text"),
    [
        ({"op": "test", "path": "/a/b", "value": True}, "testing value /a/b failed: test failed"),
        (
            {"op": "remove", "path": "/c"},
            "error in remove for path: '/c': Unable to remove nonexistent key: c: missing value",
        ),
        (
            {"op": "replace", "path": "/c/d", "value": 1},
            "replace operation does not apply: doc is missing path: /c/d: missing value",
        ),
        ({"op": "grow", "path": "/a"}, "Unexpected kind: grow"),
        ({"op": [], "path": "/a"}, "Unexpected kind: []"),
        ({"op": "add", "value": 1}, "add operation failed to decode path: missing value"),
        (
            {"op": "add", "path": "/c/d", "value": 1},
            'add operation does not apply: doc is missing path: "/c/d": missing value',
        ),
        (
            {"op": "add", "path": "/list/4", "value": 1},
            "error in add for path: '/list/4': Unable to access invalid index: 4",
        ),
        (
            {"op": "remove", "path": "/list/01"},
            "error in remove for path: '/list/01': Unable to access invalid index: 01",
        ),
        ({"op": "move", "from": "/a", "path": "/a/b"}, "move operation does not apply: /a would be moved into itself"),
        (
            {"op": "copy", "from": "/c/d", "path": "/d"},
            "copy operation does not apply: doc is missing from path: /c/d: missing value",
        ),
        (
            {"op": "move", "from": "/c", "path": "/d"},
            "move operation does not apply: doc is missing from path: /c: missing value",
        ),
    ],
)
def test_json_patch_that_does_not_fit_fails(operation, text):
    with pytest.raises(PatchFailed) as failed:
        apply_json_patch(DOCUMENT, [operation])
    assert str(failed.value) == text


@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        pytest.param({"op": "replace", "path": "/c", "value": 1}, {"a": 0, "c": 1}, id="replace-of-a-missing-key"),
        pytest.param({"op": "copy", "from": "/c", "path": "/d"}, {"a": 0, "d": None}, id="copy-of-a-missing-key"),
        pytest.param({"op": "add", "path": "/c"}, {"a": 0, "c": None}, id="add-of-no-value"),
    ],
)
def test_json_patch_takes_what_the_rfc_does_not(operation, expected):
    # Kubernetes 1.36.2 does, for PATCH and for the patches of webhooks.
    assert apply_json_patch({"a": 0}, [operation]) == expected


@pytest.mark.parametrize(
    "operations",
    [
        {},
        [1],
        [{"op": "add", "path": "a", "value": 1}],
    ],
)
def test_what_is_no_json_patch_is_bad(operations):
    with pytest.raises(BadPatch):
        apply_json_patch(DOCUMENT, operations)


def test_json_patch_leaves_the_document_alone():
    document = {"a": [{"b": 1}]}
    apply_json_patch(document, [{"op": "replace", "path": "/a/0/b", "value": 2}])
    assert document == {"a": [{"b": 1}]}


JSON = st.recursive(
    st.none() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab/~"), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, JSON)
def test_json_patch_agrees_with_the_library(before, after):
    patch = jsonpatch.make_patch(before, after).patch
    assert apply_json_patch(before, patch) == after


@pytest.mark.parametrize(
    ("document", "patch", "expected"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
    ids=range(10),
)
def test_merge_patch_does_as_the_standard_says(document, patch, expected):
    assert apply_merge_patch(document, patch) == expected
