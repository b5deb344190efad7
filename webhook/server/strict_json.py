"""JSON that callers send, read strictly."""

from __future__ import annotations

from typing import Any

import orjson

__all__ = ["BadJSON", "read_json"]


class BadJSON(ValueError):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A body that is no JSON, or none that could be written again. Its text is one plain sentence for who sent it."""


def read_json(body: bytes) -> Any:
    """The document of a body.

    Raises:
        BadJSON: there is none.
    """
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise BadJSON(f"The body is no JSON: {error.msg} at line {error.lineno} column {error.colno}.") from error
    try:
        # What could not be written again is nested deeper than the policies go down, or fails later, in a patch or a log.
        orjson.dumps(document)
    except TypeError as error:
        raise BadJSON("The body is nested too deeply; no Kubernetes object has 254 levels.") from error
    return document
