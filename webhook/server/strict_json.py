"""JSON that callers send, read strictly."""

from __future__ import annotations

from typing import Any

import orjson

from webhook.cluster.answers import parse_json

__all__ = ["MOST_VALUES", "BadJSON", "TooManyValues", "has_more_values", "most_values", "read_json"]

MOST_VALUES = 250_000
"""Values that a document may have: objects, lists, and what they hold.

The bytes of a body say little about its memory: 8 MiB of `[],` are 195 MiB of Python's objects, of `{"a":1},` even more.
With this bound it is 45 MiB at the most. Pods, workloads and claims have 25 bytes and more for each value, so two objects
of 3 MiB, the largest that an API server takes, stay below it. What is in a string does not count, such as the lines of a
ConfigMap.
"""


class BadJSON(ValueError):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A body that is no JSON, or none that could be written again. Its text is one plain sentence for who sent it."""


class TooManyValues(BadJSON):
    """A document with more than `MOST_VALUES` values; it was not parsed."""


def read_json(body: bytes) -> Any:
    """The document of a body.

    Raises:
        BadJSON: there is none.
    """
    if has_more_values(body, MOST_VALUES):
        raise TooManyValues(f"The body has more than {MOST_VALUES:,} values.")
    try:
        document = parse_json(body)
    except orjson.JSONDecodeError as error:
        raise BadJSON(f"The body is no JSON: {error.msg} at line {error.lineno} column {error.colno}.") from error
    try:
        # What could not be written again is nested deeper than the policies go down, or fails later, in a patch or a log.
        orjson.dumps(document)
    except TypeError as error:
        raise BadJSON("The body is nested too deeply; no Kubernetes object has 254 levels.") from error
    return document


def most_values(body: bytes) -> int:
    """The most values that a body can have: each one but the first follows a comma or begins a list or an object."""
    return 1 + body.count(b",") + body.count(b"[") + body.count(b"{")


def has_more_values(body: bytes, most: int) -> bool:
    """True if a body has more than so many values, not counting what only looks like one inside a string."""
    if most_values(body) <= most:
        return False
    unescaped = body.replace(rb"\\", b"").replace(rb"\"", b"")
    if unescaped.count(b'"') > 4 * most:  # two for each value, and two for its key
        return True
    return most_values(b"".join(unescaped.split(b'"')[::2])) > most
