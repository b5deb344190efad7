"""Reading the API server's answers: JSON documents, lines of watches, and errors."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from webhook.cluster.errors import APIError, BadAnswer, ClusterError, Unreachable
from webhook.cluster.garbage_collection import CollectionPause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multidict import CIMultiDictProxy

__all__ = [
    "Answer",
    "LineTooLong",
    "Lines",
    "ServiceAnswer",
    "error_of",
    "parse_json",
    "read_json",
    "retry_after_of",
    "status_error",
]

_NOT_SERVED = "404 page not found"
"""The API server's answer to the path of a group or version that it does not serve. Source: net/http, NotFound."""
_LONGEST_QUOTE = 200


class Answer(NamedTuple):
    """A successful answer of the API server."""

    document: Any
    """The JSON document; None if the body is empty."""
    headers: CIMultiDictProxy[str]


class ServiceAnswer(NamedTuple):
    """What answered a call to a Service."""

    status: int
    body: bytes
    retry_after: float | None
    """Seconds until the Service accepts a retry, if it named a time."""


def read_json(what: str, body: bytes, content_type: str) -> Any:
    """The JSON document of an answer; None if the body is empty.

    Raises:
        BadAnswer: The body is not JSON.
    """
    if not body:
        return None
    try:
        return parse_json(body)
    except orjson.JSONDecodeError as error:
        raise BadAnswer(f"{what}: expected JSON, got {_quote(body, content_type)}") from error


def error_of(what: str, status: int, headers: Mapping[str, str], body: bytes) -> ClusterError:
    """The error for an answer with an HTTP status of 300 or more.

    Only a Status, or plain text, comes from the API server itself. A proxy's 404 page says nothing about objects.

    Args:
        what: The request, which begins the message.
        status: The HTTP status.
        headers: The headers of the answer.
        body: The body of the answer.
    """
    retry_after = retry_after_of(headers)
    content_type = headers.get("Content-Type", "")
    document = _status_in(body)
    if document is not None:
        error = status_error(document, status)
        error.retry_after = error.retry_after if retry_after is None else retry_after
        return error
    text = _text(body)
    is_own = content_type.startswith("text/plain") and (status != HTTPStatus.NOT_FOUND or text == _NOT_SERVED)
    if is_own and status >= HTTPStatus.BAD_REQUEST:
        return APIError(status, _phrase(status), f"{what}: {text or _phrase(status)}", retry_after)
    to = f" to {headers['Location'][:_LONGEST_QUOTE]}" if "Location" in headers else ""
    foreign = Unreachable(
        f"{what}: {status} {_phrase(status)}{to}, with {_quote(body, content_type)} instead of a Kubernetes Status; "
        "something in front of the API server answered"
    )
    foreign.retry_after = retry_after
    return foreign


def retry_after_of(headers: Mapping[str, str]) -> float | None:
    """Retry-After in seconds; None if it is missing. The API server never writes a date."""
    header = headers.get("Retry-After")
    return float(header[:9]) if header and header.isascii() and header.isdigit() else None


def status_error(document: dict[str, Any], status: int = 500) -> APIError:
    """The error in a metav1.Status; `status` is the HTTP status, for a Status without a code."""
    code = document.get("code")
    details = document.get("details")
    wait = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    reason, message = document.get("reason"), document.get("message")
    number = code if isinstance(code, int) and not isinstance(code, bool) and code >= 400 else status
    return APIError(
        number,
        reason if isinstance(reason, str) else "",
        message if isinstance(message, str) and message else f"{number} {_phrase(number)}",
        float(wait) if isinstance(wait, int) and wait > 0 else None,
    )


def _status_in(body: bytes) -> dict[str, Any] | None:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) and document.get("kind") == "Status" else None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "unknown status"


def _quote(body: bytes, content_type: str) -> str:
    text = _text(body)
    kind = content_type.partition(";")[0][:50] or "text without a type"
    return f"{kind}: {text[:_LONGEST_QUOTE]!r}" if text else f"an empty {kind}"


def _text(body: bytes) -> str:
    return " ".join(body[: 4 * _LONGEST_QUOTE].decode(errors="replace").split())


def parse_json(body: bytes) -> Any:
    """Parse a body without garbage collections in between.

    A page of a list becomes 100,000 Python objects, none of which is garbage.

    Raises:
        orjson.JSONDecodeError: The body is not JSON.
    """
    with CollectionPause():
        return orjson.loads(body)


_LONGEST = 16 * 2**20
"""Bytes. etcd stores objects of up to 1.5 MiB; this limit only protects our memory."""


class LineTooLong(ValueError):  # noqa: N818 - the name is a statement
    """A line exceeds 16 MiB; the text of the exception says so."""


class Lines:
    """Splits a stream of bytes into lines; a line may arrive in many pieces."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The non-empty lines that end in `chunk`, without their line ends.

        Raises:
            LineTooLong: A line exceeds 16 MiB.
        """
        *ended, rest = chunk.split(b"\n")
        lines = []
        for piece in ended:
            lines.append(b"".join([*self._pieces, piece]).strip())
            self._pieces, self._length = [], 0
        self._pieces.append(rest)
        self._length += len(rest)
        if self._length > _LONGEST:
            raise LineTooLong(f"a line has more than {_LONGEST} bytes")
        return [line for line in lines if line]
