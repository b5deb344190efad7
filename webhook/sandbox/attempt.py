"""A write on its way into the sandbox, in the words in which admission is asked about it."""

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
    """Who asks, as `userInfo` of an AdmissionReview says it."""

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
    """Empty for what is cluster-scoped; for a Namespace its own name, as the API server says it."""
    name: str
    """Empty before a generated name is made, and for each object of a collection that is deleted."""
    object: Object | None
    """None for a DELETE."""
    old_object: Object | None
    """None for a CREATE."""
    user: User
    dry_run: bool
    options: Object
    """The CreateOptions, UpdateOptions, PatchOptions or DeleteOptions, with `kind` and `apiVersion`."""


class Refused(Exception):  # noqa: N818 - an answer, not an error of the program
    """A request that the server answers with a `Status`, of whatever part of it."""

    def __init__(self, status: dict[str, Any]) -> None:
        super().__init__(status.get("message", ""))
        self.status = status
        """The metav1.Status; its `code` is the answer's."""


class Objects(Protocol):
    """What is stored, to read: webhook configurations, namespaces, and what else admission looks at.

    Nobody changes what is returned.
    """

    def objects(self, kind: str, namespace: str = "") -> list[Object]:
        """The objects of a kind by name, of one namespace or of all; none for a kind that is not served."""

    def get(self, kind: str, name: str, namespace: str = "") -> Object | None:
        """One object, if it exists."""


class Admission(Protocol):
    """What stands between a request and the store."""

    async def mutate(self, attempt: Attempt, warn: Callable[[str], None]) -> Object | None:
        """The object as mutated and defaulted again; what the attempt holds is not changed in place.

        Raises:
            Refused: the attempt is not let through.
        """

    async def validate(self, attempt: Attempt, warn: Callable[[str], None]) -> None:
        """Look at what is about to be stored, with its final name and uid.

        Raises:
            Refused: the attempt is not let through.
        """
