"""What can go wrong between here and the API server."""

from __future__ import annotations

__all__ = ["APIError", "BadAnswer", "ClusterError", "NoCluster", "Unreachable", "Untrusted"]


class ClusterError(Exception):
    """A request that the API server did not carry out. Its text is a sentence for people."""

    retry_after: float | None = None
    """Seconds after which the server wants to be asked again, where it said so."""


class APIError(ClusterError):
    """The API server answered, and refused. Its text is the server's own."""

    def __init__(self, code: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        """The HTTP status."""
        self.reason = reason
        """`Conflict`, `Expired` and the like; empty where the server gave none."""
        self.message = message
        self.retry_after = retry_after

    @property
    def not_found(self) -> bool:
        """The object, or the whole resource, does not exist."""
        return self.code == 404

    @property
    def forbidden(self) -> bool:
        """RBAC does not allow it, or admission refused."""
        return self.code == 403

    @property
    def already_exists(self) -> bool:
        """A create met an object of the same name."""
        return self.code == 409 and self.reason == "AlreadyExists"

    @property
    def conflict(self) -> bool:
        """The object was changed since it was read, or a precondition does not hold."""
        return self.code == 409 and self.reason != "AlreadyExists"

    @property
    def gone(self) -> bool:
        """The resourceVersion or the continue token is too old."""
        return self.code == 410

    @property
    def too_many(self) -> bool:
        """The server wants fewer requests; `retry_after` may say when to come again."""
        return self.code == 429


class Unreachable(ClusterError):  # noqa: N818 - it says what is, as NoCluster does
    """No answer of the API server arrived: it may have carried the request out or not."""


class BadAnswer(Unreachable):
    """What came is not what an API server sends: no JSON, no list, an event that is none or tells of the past."""


class Untrusted(Unreachable):
    """The server's certificate does not verify: the CA was rotated, or this is another server."""


class NoCluster(ClusterError):  # noqa: N818 - it says what is
    """It is not known where an API server is, or with which credentials to talk to it."""
