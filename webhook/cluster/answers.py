"""Reading what the API server answers, and telling it from what something in front of it answers."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import orjson

from webhook.cluster.errors import APIError, BadAnswer, ClusterError, Unreachable
from webhook.cluster.parsing import parse_json

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["error_of", "read_json", "status_error"]

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
