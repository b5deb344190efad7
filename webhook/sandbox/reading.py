"""Reads objects: one, or the list that a label selector and a field selector select, in pages."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import orjson

from policies.kubernetes.selectors import NodeRequirement, Operator, parse_label_selector
from webhook.sandbox.statuses import bad_request, gone, too_large_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webhook.sandbox.kinds import Kind, Target
    from webhook.sandbox.store import Cluster, Entry


@dataclass(frozen=True, slots=True)
class _FieldTerm:
    field: str
    value: str
    equal: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects of a kind that a request selects."""

    namespace: str = ""
    """Empty for all."""
    labels: tuple[NodeRequirement, ...] = ()
    fields: tuple[_FieldTerm, ...] = ()

    @property
    def selective(self) -> bool:
        """True if there is a selector beside the namespace."""
        return bool(self.labels or self.fields)

    def covers(self, entry: Entry) -> bool:
        """True if an object is selected."""
        namespace, name = entry.name
        if self.namespace not in ("", namespace):
            return False
        values = {"metadata.name": name, "metadata.namespace": namespace, **entry.fields} if self.fields else {}
        return all((values[term.field] == term.value) is term.equal for term in self.fields) and all(
            requirement.holds(entry.labels) for requirement in self.labels
        )


def parse_selection(kind: Kind, namespace: str, query: Mapping[str, str]) -> Selection:
    """The selection of a request's query.

    Raises:
        Refused: A selector is invalid, or has a field that this kind does not support.
    """
    try:
        labels = tuple(
            NodeRequirement(each.key, _OPERATORS[each.operator], tuple(each.values))
            for each in parse_label_selector(query.get("labelSelector", ""))
        )
    except ValueError as error:
        raise bad_request(f"unable to parse requirement: {error}") from error
    text = query.get("fieldSelector", "")
    terms = tuple(_field_term(text, part) for part in text.split(",") if part)
    for field in (term.field for term in terms):
        if field in ("metadata.name", "metadata.namespace", *kind.fields):
            continue
        if kind.fields or kind.custom:
            raise bad_request(f"field label not supported: {field}")
        raise bad_request(f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"')
    return Selection(namespace, labels, terms)


def _field_term(text: str, part: str) -> _FieldTerm:
    for operator in ("!=", "==", "="):
        field, found, value = part.partition(operator)
        if found:
            return _FieldTerm(field, value, equal=operator != "!=")
    raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")


_OPERATORS: dict[str, Operator] = {
    "in": "In",
    "=": "In",
    "==": "In",
    "notin": "NotIn",
    "!=": "NotIn",
    "exists": "Exists",
    "!": "DoesNotExist",
    ">": "Gt",
    "<": "Lt",
}
"""The operators of the text form, as those of expressions."""


def read_one(cluster: Cluster, target: Target) -> bytes:
    """The JSON of one object.

    Raises:
        Refused: The object does not exist.
    """
    return cluster.entry_of(target.kind, target.namespace, target.name).encode(target.kind)


def read_list(cluster: Cluster, target: Target, query: Mapping[str, str], pages: Pages) -> bytes:
    """The JSON of a list, or of one page of it.

    Raises:
        Refused: The query is invalid, or its version is too old or does not exist yet.
    """
    selection = parse_selection(target.kind, target.namespace, query)
    limit = whole_number(query, "limit")
    if token := query.get("continue", ""):
        if query.get("resourceVersion", "") not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        page = pages.next(token, limit)
    else:
        version = requested_version(cluster, query)
        if query.get("resourceVersionMatch") == "Exact" and version != cluster.store.version:
            raise gone("The resourceVersion for the provided list is too old.")
        # A real server answers version 0 from its cache, without pages.
        limit = 0 if query.get("resourceVersion") == "0" else limit
        page = pages.first(selected_entries(cluster, target.kind, selection), cluster.store.version, limit)
    metadata: dict[str, object] = {"resourceVersion": str(page.version)}
    if page.token:
        # With a selector the API server does not know how many remain, and does not say.
        metadata |= {"continue": page.token, **({} if selection.selective else {"remainingItemCount": page.remaining})}
    return encode_list(target.kind, page.entries, metadata)


def selected_entries(cluster: Cluster, kind: Kind, selection: Selection) -> list[Entry]:
    """The objects of a selection, in order."""
    entries = cluster.store.collection(kind).list(selection.namespace)
    return [entry for entry in entries if selection.covers(entry)] if selection.selective else entries


def requested_version(cluster: Cluster, query: Mapping[str, str]) -> int:
    """The `resourceVersion` of a query; 0 without one.

    Raises:
        Refused: It is not a number, or a version that does not exist yet.
    """
    text = query.get("resourceVersion", "")
    if not text:
        return 0
    if not (text.isascii() and text.isdecimal()):
        raise bad_request(
            f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    if int(text) > cluster.store.version:
        raise too_large_version(int(text), cluster.store.version)
    return int(text)


def whole_number(query: Mapping[str, str], name: str) -> int:
    """A number of the query; 0 without one.

    Raises:
        Refused: It is not a number.
    """
    text = query.get(name, "")
    if text and not (text.isascii() and text.isdecimal()):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text or 0)


def encode_list(kind: Kind, entries: list[Entry], metadata: Mapping[str, object]) -> bytes:
    """The JSON of a list; items of built-in kinds lack `kind` and `apiVersion`, as in the API server."""
    head = {"kind": f"{kind.resource.kind}List", "apiVersion": kind.resource.api_version, "metadata": metadata}
    beginning = kind.head if kind.custom else b"{"
    items = b",".join([beginning + entry.tail for entry in entries])
    return orjson.dumps(head)[:-1] + b',"items":[' + items + b"]}"


_KEPT = 64
"""The number of unfinished lists that are kept; the next page of a dropped list is 410."""

_EXPIRED = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list without"
    " the continue parameter."
)


@dataclass(frozen=True, slots=True)
class Page:
    """A part of a list."""

    entries: list[Entry]
    version: int
    """That of the whole list."""
    token: str = ""
    """The continue token for the next page; empty on the last."""
    remaining: int = 0
    """The number of objects after this page."""


class Pages:
    """The unfinished lists of clients that read page by page."""

    def __init__(self) -> None:
        self._lists: OrderedDict[str, tuple[list[Entry], int]] = OrderedDict()
        self._begun = 0

    def first(self, entries: list[Entry], version: int, limit: int) -> Page:
        """The first page of a list; the whole list without a limit (0)."""
        if not limit or len(entries) <= limit:
            return Page(entries, version)
        self._begun += 1
        identifier = f"list-{self._begun}"
        self._lists[identifier] = entries, version
        if len(self._lists) > _KEPT:
            self._lists.popitem(last=False)
        return _page(identifier, entries, version, 0, limit)

    def next(self, token: str, limit: int) -> Page:
        """The page for a continue token.

        Raises:
            Refused: The token is invalid, or its list was dropped.
        """
        identifier, _, start = token.partition(".")
        if not identifier.startswith("list-") or not start.isascii() or not start.isdecimal():
            raise bad_request(f"continue key is not valid: {token[:100]!r} was not given out by this server")
        if identifier not in self._lists:
            raise gone(_EXPIRED)
        entries, version = self._lists[identifier]
        return _page(identifier, entries, version, int(start), limit)

    def forget(self) -> None:
        """Drop all lists, so that every token is too old."""
        self._lists.clear()


def _page(identifier: str, entries: list[Entry], version: int, start: int, limit: int) -> Page:
    end = start + limit if limit else len(entries)
    remaining = max(len(entries) - end, 0)
    token = f"{identifier}.{end}" if remaining else ""
    return Page(entries[start:end], version, token, remaining)
