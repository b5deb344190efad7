"""What the user may do: the requests of an installation."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.cluster_checks import Check, Status
from policies.kubernetes.objects import name_of, namespace_of
from policies.phrases import format_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.preflight.planned_objects import PlannedObject

__all__ = ["Right", "needed_rights", "rights_checks", "rights_text"]

_RBAC = "rbac.authorization.k8s.io"
_ROLES = ("ClusterRole", "Role")
_BINDINGS = ("ClusterRoleBinding", "RoleBinding")
_MOST = 12
_MOST_OBJECTS = 3


class Right(NamedTuple):
    """One request, as RBAC sees it."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    """Empty for cluster-scoped objects."""
    name: str = ""
    """Empty for creation, where RBAC does not know the name."""

    @property
    def text(self) -> str:
        """The right in the words of `kubectl auth can-i`: `create deployments.apps -n team-a`."""
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        name = f"/{self.name}" if self.name else ""
        return f"{self.verb} {resource}{name}{f' -n {self.namespace}' if self.namespace else ''}"


def needed_rights(planned: Iterable[PlannedObject]) -> dict[Right, list[str]]:
    """The rights that applying the objects needs, each with the objects.

    kubectl reads each object, then creates or patches it. Roles and bindings may need more: `policies.preflight.grants`.
    """
    needed: dict[Right, list[str]] = {}
    for each in planned:
        if not each.resource or each.is_runtime:
            continue
        namespace, name = namespace_of(each.document), name_of(each.document)
        write = (
            Right("patch", each.group, each.resource, namespace, name)
            if each.exists
            else Right("create", each.group, each.resource, namespace)
        )
        for right in (Right("get", each.group, each.resource, namespace, name), write):
            needed.setdefault(right, []).append(each.label)
    return needed


def rights_checks(planned: Sequence[PlannedObject], granted: Mapping[Right, bool | None], who: str) -> Iterator[Check]:
    """Whether the user may send every request of an installation.

    Args:
        planned: The objects.
        granted: The answers to `needed_rights`; None where there was no answer.
        who: The user, for messages.
    """
    needed = needed_rights(planned)
    refused = [right for right in needed if granted.get(right) is False]
    unknown = [right for right in needed if granted.get(right) is None]
    if refused:
        objects = list(dict.fromkeys(label for right in refused for label in needed[right]))
        yield Check(
            name="rights",
            status=Status.FAILING,
            what=f"{who} may not apply {format_list(objects, _MOST_OBJECTS)}",
            why=f"RBAC does not allow: {rights_text(refused)}",
            remedy="let a cluster administrator apply the manifests, or grant these rights",
        )
    if unknown:
        yield Check(
            name="rights",
            status=Status.UNKNOWN,
            what=f"it is unknown whether {who} may apply every object",
            why=f"no answer about: {rights_text(unknown)}",
            remedy="allow the user to create selfsubjectaccessreviews.authorization.k8s.io, as system:basic-user does",
        )


def rights_text(rights: Iterable[Right], most: int = _MOST) -> str:
    """The rights by resource, without names: `create and get services -n gpu-admission`."""
    verbs: dict[Right, set[str]] = {}
    for right in rights:
        verbs.setdefault(right._replace(verb="", name=""), set()).add(right.verb)
    parts = [f"{format_list(sorted(found), 9)}{right.text}" for right, found in verbs.items()]
    return "; ".join([*parts[:most], *([f"{len(parts) - most:,} more"] if len(parts) > most else [])])
