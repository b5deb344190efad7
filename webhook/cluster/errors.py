"""Errors of requests to the API server."""

from __future__ import annotations

__all__ = ["APIError", "BadAnswer", "ClusterError", "NoCluster", "Unreachable", "Untrusted"]


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
