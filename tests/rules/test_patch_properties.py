"""Any edits give a patch that makes the same change, checked with an independent JSON Patch."""

import copy
import json

import jsonpatch
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.objects import FieldPath, lookup
from policies.rules.patch import Editor

keys = st.sampled_from(["a", "b", "", "0", "-", "~", "/", "~1", "~0/", "nvidia.com/gpu", "ü", '"', "%2F", " "])
scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "x", "1Gi"]) | st.just(0.5)
anything = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)
documents = st.dictionaries(keys, anything, max_size=4)
ROOT = FieldPath()


def places(document, path=ROOT):
    """Every path in a document but the root."""
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for step, value in items:
        yield path / step
        if isinstance(value, dict | list):
            yield from places(value, path / step)


def free_places(document):
    """Paths that `add` takes: keys that are missing or null in mappings that are there, and keys below them."""
    mappings = [ROOT, *(place for place in places(document) if isinstance(lookup(document, place), dict))]
    return st.tuples(st.sampled_from(mappings), st.lists(keys, min_size=1, max_size=3)).map(
        lambda pair: FieldPath((*pair[0], *pair[1]))
    )


def is_free(document, path):
    """Whether the path leaves the document at a mapping."""
    for end in range(len(path)):
        parent = lookup(document, path[:end])
        if parent is None:
            return True
        if not isinstance(parent, dict):
            return False
    return lookup(document, path) is None


def edit(editor, data):
    """Make one random change, or none where nothing of its kind can be changed; values may be parts of the document."""
    existing = list(places(editor.document))
    parts = [lookup(editor.document, place) for place in existing]
    values = anything | st.sampled_from(parts) if parts else anything
    kind = data.draw(st.sampled_from(["add", "extend", "replace", "remove"]))
    if kind == "add":
        path = data.draw(free_places(editor.document))
        if is_free(editor.document, path):
            editor.add(path, data.draw(values.filter(lambda value: value is not None)))
    elif kind == "extend":
        lists = [place for place in existing if isinstance(lookup(editor.document, place), list)]
        path = data.draw(free_places(editor.document) | (st.sampled_from(lists) if lists else st.nothing()))
        if path in lists or is_free(editor.document, path):
            editor.extend(path, data.draw(st.lists(values, max_size=3)))
    elif existing:
        path = data.draw(st.sampled_from(existing))
        if kind == "replace":
            editor.replace(path, data.draw(values))
        else:
            editor.remove(path)


def text(document):
    """The document as JSON, for Python takes 1, 1.0 and True for equal."""
    return json.dumps(document, sort_keys=True)


@given(documents, st.integers(0, 8), st.data())
def test_operations_make_the_same_change_elsewhere(document, steps, data):
    original = copy.deepcopy(document)
    editor = Editor(document)
    for _ in range(steps):
        edit(editor, data)
    assert text(document) == text(original)
    operations = json.loads(json.dumps(editor.operations))
    assert text(jsonpatch.apply_patch(original, operations)) == text(editor.document)


@given(documents, st.integers(1, 8), st.data())
def test_replace_and_remove_follow_a_test_of_the_same_place(document, steps, data):
    editor = Editor(document)
    for _ in range(steps):
        edit(editor, data)
    for before, operation in zip([{}, *editor.operations], editor.operations, strict=False):
        if operation["op"] in ("replace", "remove"):
            assert before["op"] == "test"
            assert before["path"] == operation["path"]
