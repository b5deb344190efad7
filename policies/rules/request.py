"""An admission question, parsed once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from policies.kubernetes.pods import Pod

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object


Concern = Literal[
    "conversion",
    "preview",
    "placement",
    "reapply",
    "conversion-check",
    "access",
    "quota",
    "workloads",
    "claims",
    "configuration",
    "opt-in",
]
"""One part of the review of an object. An entry has one or more."""

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True, slots=True)
class UserInfo:
    """The user of a request, as the API server authenticated them."""

    username: str = ""
    groups: tuple[str, ...] = ()


ANONYMOUS = UserInfo()


@dataclass(frozen=True)
class Request:
    """One admission question: a user performs an operation on one object.

    `object` and `old_object` are the JSON from the wire. `namespace` is the request's: before admission the object's
    own may be missing, and offline it is.
    """

    object: Object | None
    old_object: Object | None = None
    operation: Operation = "CREATE"
    group: str = ""
    kind: str = "Pod"
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user: UserInfo = ANONYMOUS
    dry_run: bool = False
    uid: str = ""
    entry: str = ""
    """The webhook entry that was called; empty for everything the API server would call, in its order."""

    compares: bool = True
    """True if claims are compared with the devices of the cluster. A server whose caller has used its share of time says
    no; the answer says so, and nothing else is left out."""

    caller_is_known: bool = True
    """False if the caller may not be an API server: what it says of a claim's uid is not believed then."""

    @cached_property
    def pod(self) -> Pod:
        """The object as a pod, read once for all concerns.

        Raises:
            MalformedPodError: it does not have a pod's shape.
        """
        return Pod.read(self.object)

    def of(self, document: Any) -> Request:
        """The same question about another form of the object, as a later webhook would see it."""
        return self if document is self.object else replace(self, object=document)
