"""Attempts: writes as admission sees them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource

__all__ = ["Admission", "Attempt", "Objects", "Operation", "Refused", "User"]

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
