"""Parses the JSON of callers strictly."""

from __future__ import annotations

from typing import Any

import orjson

from webhook.cluster.answers import parse_json

__all__ = ["MOST_VALUES", "BadJSON", "TooManyValues", "has_more_values", "most_values", "read_json"]

MOST_VALUES = 250_000
"""Maximum number of values in a document: objects, lists, and their members.

The size of a body does not bound its memory: 8 MiB of `[],` become 195 MiB of Python objects, of `{"a":1},` even more.
This limit bounds it to 45 MiB. Pods, workloads and claims have at least 25 bytes for each value, so two objects of 3 MiB,
the largest that an API server accepts, stay below the limit. The content of strings does not count, such as the lines of
a ConfigMap.
"""


class BadJSON(ValueError):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A body that is not valid JSON, or is nested too deeply. Its text is one sentence for the caller."""


class TooManyValues(BadJSON):
    """A document with more than `MOST_VALUES` values; it was not parsed."""


def read_json(body: bytes) -> Any:
    """Parse the document of a body.

    Raises:
        BadJSON: the body is invalid or too large.
    """
    if has_more_values(body, MOST_VALUES):
        raise TooManyValues(f"The body has more than {MOST_VALUES:,} values.")
    try:
        document = parse_json(body)
    except orjson.JSONDecodeError as error:
        raise BadJSON(
            f"The body is not valid JSON: {error.msg} at line {error.lineno} column {error.colno}."
        ) from error
    try:
        # orjson parses deeper nesting than it serializes; such a document would fail later, in a patch or a log. To write
        # a document takes a quarter of the time to read it, and less than to count its brackets.
        orjson.dumps(document)
    except TypeError as error:
        raise BadJSON("The body is nested too deeply; no Kubernetes object has 254 levels.") from error
    return document


def most_values(body: bytes) -> int:
    """An upper bound of a body's values: all but the first follow a comma or begin a list or an object."""
    return 1 + body.count(b",") + body.count(b"[") + body.count(b"{")


def has_more_values(body: bytes, most: int) -> bool:
    """True if a body has more than `most` values; the content of strings does not count."""
    if len(body) < most or most_values(body) <= most:
        return False
    unescaped = body.replace(rb"\\", b"").replace(rb"\"", b"")
    if unescaped.count(b'"') > 4 * most:  # two for each value, and two for its key
        return True
    return most_values(b"".join(unescaped.split(b'"')[::2])) > most
