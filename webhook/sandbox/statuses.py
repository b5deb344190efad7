"""Attempts: writes as admission sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from policies.kubernetes.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource


Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class User:
    """The user of a request, as in `userInfo` of an AdmissionReview."""

    name: str
    groups: tuple[str, ...]
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One write, as admission sees it."""

    operation: Operation
    resource: Resource
    subresource: str
    namespace: str
    """Empty for cluster-scoped objects; the own name of a Namespace, as in the API server."""
    name: str
    """Empty before a name is generated, and for each object of a deleted collection."""
    object: Object | None
    """None for a DELETE."""
    old_object: Object | None
    """None for a CREATE."""
    user: User
    dry_run: bool
    options: Object
    """The CreateOptions, UpdateOptions, PatchOptions or DeleteOptions, with `kind` and `apiVersion`."""


class Refused(Exception):  # noqa: N818 - an answer, not an error of the program
    """A request that is answered with a `Status`."""

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status.get("message", ""))
        self.status = status
        """The metav1.Status; its `code` is the answer's."""


class Objects(Protocol):
    """Read access to the stored objects, for admission; callers must not change them."""

    def objects(self, kind: str, namespace: str = "") -> list[Object]:
        """The objects of a kind by name, of one namespace or of all; none for a kind that is not served."""

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """One object, if it exists."""


class Admission(Protocol):
    """Admission of writes."""

    async def mutate(self, attempt: Attempt, warn: Callable[[str], None]) -> Object | None:
        """The mutated object with defaults; does not change the object of the attempt.

        Raises:
            Refused: The attempt is refused.
        """

    async def validate(self, attempt: Attempt, warn: Callable[[str], None]) -> None:
        """Validate the object that will be stored, with its final name and UID.

        Raises:
            Refused: The attempt is refused.
        """


MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
"""The reason why a write with an older `resourceVersion` is refused."""

NO_SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'example.com', regex used for validation is"
    r" '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
"""The message for invalid names of most objects."""
NO_LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with"
    " an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is"
    " '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
"""The message for invalid names of containers, pod claims and requests of a claim."""

CauseType = Literal[
    "Required", "Invalid", "Forbidden", "NotFound", "NotSupported", "Duplicate", "TypeInvalid", "TooLong", "TooMany"
]
_WORDS: dict[CauseType, str] = {
    "Required": "Required value",
    "Invalid": "Invalid value",
    "Forbidden": "Forbidden",
    "NotFound": "Not found",
    "NotSupported": "Unsupported value",
    "Duplicate": "Duplicate value",
    "TypeInvalid": "Invalid value",
    "TooLong": "Too long",
    "TooMany": "Too many",
}


@dataclass(frozen=True, slots=True)
class Cause:
    """One problem of one field."""

    field: str
    type: CauseType
    detail: str
    """The text after `Required value: ` and the like, with the invalid value; may be empty."""

    @property
    def body(self) -> str:
        """The text without the field's path."""
        return f"{_WORDS[self.type]}: {self.detail}" if self.detail else _WORDS[self.type]


def unsupported_value(field: str, value: Any, supported: Iterable[str]) -> Cause:
    """The cause for a value that is not one of the supported ones."""
    return Cause(field, "NotSupported", f"{quote(value)}: supported values: {', '.join(map(quote, supported))}")


def failure(code: int, reason: str, message: str, details: dict[str, Any] | None = None) -> Refused:
    """A refusal with a Status of these fields."""
    status: dict[str, Any] = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": message,
    }
    if reason:
        status["reason"] = reason
    if details is not None:
        status["details"] = details
    return Refused({**status, "code": code})


def success(resource: Resource, name: str, uid: str = "") -> dict[str, Any]:
    """The Status of a successful write without an object in the answer."""
    details = _details(resource, name, uid)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details}


def _details(resource: Resource, name: str, uid: str = "") -> dict[str, Any]:
    details = {"name": name, "group": resource.group, "kind": resource.plural, "uid": uid}
    return {key: value for key, value in details.items() if value}


def not_found(resource: Resource, name: str) -> Refused:
    """404: the object does not exist."""
    return failure(404, "NotFound", f'{resource.name} "{name}" not found', _details(resource, name))


def already_exists(resource: Resource, name: str, *, ending: bool = False) -> Refused:
    """409: an object of this name exists, possibly one that is being deleted."""
    message = f'{"object is being deleted: " if ending else ""}{resource.name} "{name}" already exists'
    return failure(409, "AlreadyExists", message, _details(resource, name))


def conflict(resource: Resource, name: str, why: str = MODIFIED) -> Refused:
    """409: the object changed since it was read."""
    message = f'Operation cannot be fulfilled on {resource.name} "{name}": {why}'
    return failure(409, "Conflict", message, _details(resource, name))


def forbidden(resource: Resource, name: str, why: str, causes: list[dict[str, str]] | None = None) -> Refused:
    """403: the server refuses the request."""
    named = f'{resource.name} "{name}"' if name else resource.name
    details = _details(resource, name) | ({"causes": causes} if causes else {})
    return failure(403, "Forbidden", f"{named} is forbidden: {why}", details)


def bad_request(message: str) -> Refused:
    """400: the request is malformed."""
    return failure(400, "BadRequest", message)


def invalid(kind: str, group: str, name: str, causes: Sequence[Cause]) -> Refused:
    """422: fields have invalid values."""
    texts = [f"{cause.field}: {cause.body}" for cause in dict.fromkeys(causes)]
    shown = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    named = f"{kind}.{group}" if group else kind
    details: dict[str, Any] = {"name": name, "group": group, "kind": kind}
    details = {key: value for key, value in details.items() if value}
    details["causes"] = [
        {"reason": f"FieldValue{cause.type}", "message": cause.body, "field": cause.field} for cause in causes
    ]
    return failure(422, "Invalid", f'{named} "{name}" is invalid: {shown}', details)


def gone(message: str) -> Refused:
    """410: the version or the continue token is too old."""
    return failure(410, "Expired", message)


def too_large_version(requested: int, current: int) -> Refused:
    """504: the requested version does not exist yet."""
    cause = {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
    message = f"Timeout: Too large resource version: {requested}, current: {current}"
    return failure(504, "Timeout", message, {"causes": [cause], "retryAfterSeconds": 1})


def patch_rejected() -> Refused:
    """422: a JSON Patch does not apply. API servers do not say why."""
    return failure(422, "Invalid", "the server rejected our request due to an error in our request")


def internal_error(message: str) -> Refused:
    """500: `Internal error occurred: ...`."""
    causes = [{"message": message}]
    return failure(500, "InternalError", f"Internal error occurred: {message}", {"causes": causes})


def no_such_path() -> Refused:
    """404: the path is not served."""
    return failure(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> Refused:
    """405: the path does not support this verb."""
    return failure(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def too_large(limit: int) -> Refused:
    """413: a body of more bytes than `limit`."""
    return failure(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def unsupported_media_type(*accepted: str) -> Refused:
    """415: the content type of the body is not supported."""
    message = "the body of the request was in an unknown format - accepted media types include: " + ", ".join(accepted)
    return failure(415, "UnsupportedMediaType", message)
