"""Reading objects: one, or a list of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import orjson

from webhook.sandbox.selectors import parse_selection
from webhook.sandbox.statuses import bad_request, expired, not_found, too_large_version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from webhook.sandbox.cluster import Cluster
    from webhook.sandbox.kinds import Kind
    from webhook.sandbox.paging import Page, Pages
    from webhook.sandbox.routing import Target
    from webhook.sandbox.selectors import Selection
    from webhook.sandbox.stored_entries import Entry

__all__ = ["asked_version", "encode_list", "read_list", "read_one", "selected", "whole_number"]


def read_one(cluster: Cluster, target: Target) -> bytes:
    """The JSON of one object.

    Raises:
        Refused: there is none.
    """
    entry = cluster.store.get(target.kind, target.namespace, target.name)
    if entry is None:
        raise not_found(target.resource, target.name)
    return entry.encode(target.kind)


def read_list(cluster: Cluster, target: Target, query: Mapping[str, str], pages: Pages) -> bytes:
    """The JSON of a list, or of the page of one that the query asks for.

    Raises:
        Refused: the query cannot be read, or asks for what is not known any more or not yet.
    """
    selection = parse_selection(target.kind, target.namespace, query)
    limit = whole_number(query, "limit")
    if token := query.get("continue", ""):
        if query.get("resourceVersion", "") not in ("", "0"):
            raise bad_request("specifying resource version is not allowed when using continue")
        page = pages.next(token, limit)
    else:
        _check_version(cluster, query)
        # From its cache, which version 0 asks for, a real server answers with everything.
        limit = 0 if query.get("resourceVersion") == "0" else limit
        page = pages.first(selected(cluster, target.kind, selection), cluster.store.version, limit)
    return _encode_page(target.kind, page, counted=not selection.selective)


def selected(cluster: Cluster, kind: Kind, selection: Selection) -> list[Entry]:
    """The objects of a selection, in order."""
    entries = cluster.store.collection(kind).list(selection.namespace)
    return [entry for entry in entries if selection.covers(entry)] if selection.selective else entries


def _check_version(cluster: Cluster, query: Mapping[str, str]) -> None:
    version = asked_version(cluster, query)
    exact = query.get("resourceVersionMatch") == "Exact"
    if exact and version != cluster.store.version:
        raise expired("The resourceVersion for the provided list is too old.")


def asked_version(cluster: Cluster, query: Mapping[str, str]) -> int:
    """The `resourceVersion` of a query; 0 where none is asked for.

    Raises:
        Refused: it is no number, or a version that does not exist yet.
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
    """A number of the query, 0 where it is not there.

    Raises:
        Refused: it is none.
    """
    text = query.get(name, "")
    if text and not (text.isascii() and text.isdecimal()):
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text or 0)


def _encode_page(kind: Kind, page: Page, *, counted: bool) -> bytes:
    metadata: dict[str, object] = {"resourceVersion": str(page.version)}
    if page.token:
        # With a selector the API server does not know how many remain, and does not say.
        metadata |= {"continue": page.token, **({"remainingItemCount": page.remaining} if counted else {})}
    return encode_list(kind, page.entries, metadata)


def encode_list(kind: Kind, entries: list[Entry], metadata: Mapping[str, object]) -> bytes:
    """The JSON of a list. Items of built-in kinds are without `kind` and `apiVersion`, as the API server writes them."""
    head = {"kind": f"{kind.resource.kind}List", "apiVersion": kind.resource.api_version, "metadata": metadata}
    beginning = kind.head if kind.custom else b"{"
    items = b",".join([beginning + entry.tail for entry in entries])
    return orjson.dumps(head)[:-1] + b',"items":[' + items + b"]}"
