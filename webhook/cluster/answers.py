"""Reading the API server's answers: JSON documents, lines of watches, and errors."""

from __future__ import annotations

import gc
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson

from webhook.cluster.errors import APIError, BadAnswer, ClusterError, Unreachable

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["LineTooLong", "Lines", "error_of", "parse_json", "read_json", "status_error"]

_NOT_SERVED = "404 page not found"
"""The whole answer of an API server to a path of a group or version that it does not serve: net/http, NotFound."""
_LONGEST_QUOTE = 200


def read_json(what: str, body: bytes, content_type: str) -> Any:
    """The JSON of a good answer; None where it is empty.

    Raises:
        BadAnswer: it is no JSON.
    """
    if not body:
        return None
    try:
        return parse_json(body)
    except orjson.JSONDecodeError as error:
        raise BadAnswer(f"{what}: the answer is no JSON but {_quoted(body, content_type)}") from error


def error_of(what: str, status: int, headers: Mapping[str, str], body: bytes) -> ClusterError:
    """What an answer with an HTTP status of 300 or more means.

    Only a Status, or plain text, is the API server's own. A proxy's page is not: its 404 says nothing about objects.

    Args:
        what: What was asked for, to begin the sentence with.
        status: The HTTP status.
        headers: Of the answer.
        body: Of the answer.
    """
    retry_after = _seconds(headers.get("Retry-After"))
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
        f"{what}: {status} {_phrase(status)}{to}, with {_quoted(body, content_type)} instead of a Kubernetes Status; "
        "something in front of the API server answered"
    )
    foreign.retry_after = retry_after
    return foreign


def status_error(document: dict[str, Any], status: int = 500) -> APIError:
    """The error that a metav1.Status tells of.

    Args:
        document: The Status.
        status: The HTTP status, for a Status without a code.
    """
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


def _seconds(header: str | None) -> float | None:
    """Retry-After in seconds; the API server never writes a date."""
    return float(header[:9]) if header and header.isascii() and header.isdigit() else None


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "unknown status"


def _quoted(body: bytes, content_type: str) -> str:
    text = _text(body)
    kind = content_type.partition(";")[0][:50] or "text of no type"
    return f"{kind}: {text[:_LONGEST_QUOTE]!r}" if text else f"an empty {kind}"


def _text(body: bytes) -> str:
    return " ".join(body[: 4 * _LONGEST_QUOTE].decode(errors="replace").split())


def parse_json(body: bytes) -> Any:
    """The document of a body.

    A page of a list becomes 100,000 Python objects. While they are created, the garbage collector would traverse all
    objects of the process several times, for 100 ms each, while no other thread runs. None of them is garbage.

    Raises:
        orjson.JSONDecodeError: The body is not JSON.
    """
    if not gc.isenabled():
        return orjson.loads(body)
    gc.disable()
    try:
        return orjson.loads(body)
    finally:
        gc.enable()


_LONGEST = 16 * 2**20
"""Bytes. etcd takes objects up to 1.5 MiB; this is what memory is risked for, not what is to be expected."""


class LineTooLong(ValueError):  # noqa: N818 - it says what is
    """A line goes on and on. Its text says so."""


class Lines:
    """Takes bytes as they come and gives whole lines. A line may be long, and may come in many pieces."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that end in `chunk`, without their ends and without empty ones.

        Raises:
            LineTooLong: a line has more than 16 MiB.
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
