"""Records of migrations in JSON, which has no comments: an annotation of the template that was added."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup
from policies.metadata_keys import PREFIX
from policies.migration.text_edits import Splice, UneditableError, apply_splices
from policies.migration.text_nodes import read_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.kubernetes.yaml import Limits
    from policies.migration.text_nodes import Entry, TextNode

__all__ = ["LIST_BEGIN", "LIST_END", "RECORD_KEY", "record_of", "restored_json"]

RECORD_KEY = f"{PREFIX}migrated"
"""The annotation with what has to be replaced in the text of the object that follows the template."""
LIST_BEGIN, LIST_END = '{"apiVersion": "v1", "kind": "List", "items": [', "]}"
"""What is written around a single object and its templates."""
_ADDED_LIST = f'{LIST_BEGIN}{{"apiVersion": "resource.k8s.io/v1"'
"""The text at which a List that migration added is recognized."""


def record_of(text: str, splices: Sequence[Splice], start: int, templates: int) -> str:
    """The record that undoes replacements in the text of an object that begins at `start`."""
    moved = [Splice(each.start - start, each.end - start, each.text) for each in splices]
    was, shift = [], 0
    for begin, end, new in moved:
        was.append([begin + shift, len(new), text[begin:end]])
        shift += len(new) - (end - begin)
    record = {"text": _digest(apply_splices(text, moved)), "templates": templates, "was": was}
    return json.dumps(record, separators=(",", ":"))


def restored_json(text: str, limits: Limits) -> str:
    """The text in which every migrated object is as before.

    Raises:
        UneditableError: An object was edited since, or a record is invalid.
    """
    documents = read_text(text, limits)
    items = documents[0].root.child("items") if documents else None
    if items is None or not items.entries:
        return text
    root, value = documents[0].root, json.loads(text)
    splices = list(_splices(text, value["items"], items))
    if len(items.entries) == 2 and text.startswith(_ADDED_LIST, root.start):
        object_node = items.entries[1].value
        own = [each for each in splices if each.start >= object_node.start]
        first, last = root.start, root.end
        splices = [Splice(first, object_node.start, ""), *own, Splice(object_node.end, last, "")]
    return apply_splices(text, splices)


def _splices(text: str, items: list[Any], node: TextNode) -> Iterator[Splice]:
    entries: list[Entry] = node.entries or []
    for index, item in enumerate(items):
        written = lookup(item, ("metadata", "annotations", RECORD_KEY))
        if not isinstance(written, str):
            continue
        try:
            record = json.loads(written)
            digest, templates, was = record["text"], record["templates"], record["was"]
            target = entries[index + templates].value
            found = [
                Splice(target.start + int(begin), target.start + int(begin + size), str(old))
                for begin, size, old in was
            ]
        except (ValueError, KeyError, TypeError, IndexError, OverflowError, RecursionError):
            raise UneditableError(f"the annotation {RECORD_KEY} of its template is invalid") from None
        if _digest(text[target.start : target.end]) != digest:
            raise UneditableError("it was edited after its migration; take its former text from version control")
        yield Splice(entries[index].start, entries[index + templates].start, "")
        yield from found


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
