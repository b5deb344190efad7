"""Answers of the API server: JSON documents, lines of watches, and the errors of calls."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from webhook.cluster.garbage_collection import CollectionPause

if TYPE_CHECKING:
    from collections.abc import Mapping

    from multidict import CIMultiDictProxy


class ClusterError(Exception):
    """A request that failed; its text is a sentence for users."""

    retry_after: float | None = None
    """Seconds until the server accepts a retry, if it named a time."""

    @property
    def is_transient(self) -> bool:
        """True if the same request may succeed a moment later."""
        return False


class APIError(ClusterError):
    """The API server refused; the text is the server's own."""

    def __init__(self, code: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        """The HTTP status."""
        self.reason = reason
        """`Conflict`, `Expired` and the like; empty if the server gave none."""
        self.message = message
        self.retry_after = retry_after

    @property
    def is_transient(self) -> bool:
        """True if the server is too busy, or failed itself."""
        return self.is_too_many_requests or self.code >= 500

    @property
    def is_not_found(self) -> bool:
        """True if the object, or the whole resource, does not exist."""
        return self.code == 404

    @property
    def is_forbidden(self) -> bool:
        """True if RBAC does not allow the request, or admission refused it."""
        return self.code == 403

    @property
    def already_exists(self) -> bool:
        """True if an object of this name exists."""
        return self.code == 409 and self.reason == "AlreadyExists"

    @property
    def is_conflict(self) -> bool:
        """True if the object changed since it was read, or a precondition failed."""
        return self.code == 409 and self.reason != "AlreadyExists"

    @property
    def is_invalid(self) -> bool:
        """True if the object would be invalid after the request."""
        return self.code == 422

    @property
    def is_gone(self) -> bool:
        """True if the resourceVersion or the continue token is too old."""
        return self.code == 410

    @property
    def is_too_many_requests(self) -> bool:
        """True if the server limits the rate; `retry_after` may say how long to wait."""
        return self.code == 429


class Unreachable(ClusterError):  # noqa: N818 - the name is a statement
    """No answer arrived; the API server may have executed the request or not."""

    @property
    def is_transient(self) -> bool:
        """True: a connection can break at any time."""
        return True


class Silent(Unreachable):
    """A watch was accepted, and then nothing came for too long."""


class BadAnswer(Unreachable):
    """The answer is not valid: not JSON, not a list, an unknown or outdated event."""


class Untrusted(Unreachable):
    """The server's certificate does not verify: the CA was rotated, or this is a different server."""

    @property
    def is_transient(self) -> bool:
        """False: only another certificate, or another authority, helps."""
        return False


class NoCluster(ClusterError):  # noqa: N818 - the name is a statement
    """No API server, or no usable credentials for it, are configured."""


_NOT_SERVED = "404 page not found"
"""The API server's answer to the path of a group or version that it does not serve. Source: net/http, NotFound."""
_LONGEST_QUOTE = 200


class Answer(NamedTuple):
    """A successful answer of the API server."""

    document: Any
    """The JSON document; None if the body is empty."""
    headers: CIMultiDictProxy[str]


class ServiceAnswer(NamedTuple):
    """The answer to a call of a Service."""

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
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        document = None
    if isinstance(document, dict) and document.get("kind") == "Status":
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
