"""Looks up an object of the cluster by the kind and name that a user gave."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.names import closest, printable
from policies.kubernetes.objects import DEFAULT_NAMESPACE, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.workloads import group_of
from webhook.cluster.resources import RESOURCES, WORKLOAD_RESOURCES, Resource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import AddedKind


class KindUnknownError(ValueError):
    """An unknown kind; the text lists the known ones, without a full stop."""


class NotFoundError(LookupError):
    """The view does not show the object; the text says so, without a full stop."""

    def __init__(self, sentence: str, hint: str = "", *, is_certain: bool) -> None:
        super().__init__(f"{sentence}{hint}")
        self.sentence = sentence
        self.hint = hint
        """Suggests another name or namespace; begins with a semicolon unless it is empty."""
        self.is_certain = is_certain
        """True if the object does not exist; False if that is unknown."""


_RESOURCES = (
    RESOURCES["Pod"],
    RESOURCES["ResourceClaim"],
    RESOURCES["ResourceClaimTemplate"],
    *WORKLOAD_RESOURCES.values(),
)
"""The resources of the kinds that can be explained."""
_ALIASES = {"ResourceClaim": "claim", "ResourceClaimTemplate": "template"}
"""Our own short names."""
_KEPT = {"Pod": "only pods that may get GPUs, and have not ended, are known by name"}
"""The objects that a live view keeps, for kinds that it keeps only in part."""


_LIKENESS = 0.6
"""Words of a command line are short, so that one letter is much of them."""
_LONGEST_NAME = 253
"""Characters of a name, or of a kind with its group, that are read and shown."""


def find_resource(text: str, added: Iterable[AddedKind] = ()) -> Resource:
    """The resource with a name such as `pod`, `deploy`, `resourceclaims` or `job.batch`.

    Args:
        text: The name.
        added: The kinds that the settings add.

    Raises:
        KindUnknownError: No kind that can be explained has this name.
    """
    # Guessing what a text of 2 MiB means takes a third of a second.
    text = text[:_LONGEST_NAME]
    word, _, group = text.lower().partition(".")
    own = (Resource(each.group, "", each.plural, each.kind, namespaced=True) for each in added)
    names = {resource: _names(resource) for resource in (*_RESOURCES, *own)}
    for resource, accepted in names.items():
        if word in accepted and group in ("", resource.group):
            return resource
    usual = {name: accepted[0] for accepted in reversed(names.values()) for name in accepted}
    guess = closest(word, usual, likeness=_LIKENESS)
    every = ", ".join(dict.fromkeys(accepted[0] for accepted in names.values()))
    hint = f"did you mean {usual[guess]}?" if guess else f"supported kinds: {every}"
    raise KindUnknownError(f"unknown kind {printable(text[:100])}; {hint}")


def _names(resource: Resource) -> list[str]:
    """The accepted names of a kind, the usual one first."""
    lower = resource.kind.lower()
    alias = _ALIASES.get(resource.kind)
    return [*([alias] if alias else []), lower, f"{lower}s", resource.plural, *resource.short_names]


def look_up(
    view: ClusterView, resource: Resource, name: str, namespace: str = "", *, hints_elsewhere: bool = True
) -> Object:
    """One object of a cluster.

    Args:
        view: The cluster.
        resource: The resource; an object of another group with the same kind does not count.
        name: The name of the object.
        namespace: The namespace of the object; empty for `default`.
        hints_elsewhere: True if the error may name other namespaces with an object of that name.

    Raises:
        NotFoundError: The view does not show it.
    """
    where = namespace or DEFAULT_NAMESPACE
    found = view.get(resource.kind, name, where)
    if isinstance(found, dict) and group_of(found) == resource.group:
        return found
    listed = view.list(resource.kind)
    if listed is UNKNOWN:
        raise NotFoundError(f"{resource.kind}s are unknown", is_certain=False)
    objects = [item for item in listed if group_of(item) == resource.group]
    for item in objects:
        if name_of(item) == name and _namespace(item) == where:
            return item
    hint = _hint(objects, name, where, hints_elsewhere=hints_elsewhere)
    wanted = printable(f"{resource.kind} {name[:_LONGEST_NAME]} in namespace {where[:63]}")
    if found is UNKNOWN:
        because = f": {_KEPT[resource.kind]}" if resource.kind in _KEPT else ""
        raise NotFoundError(f"{wanted} is unknown{because}", hint, is_certain=False)
    raise NotFoundError(f"{wanted} not found", hint, is_certain=True)


def _hint(objects: list[Object], name: str, namespace: str, *, hints_elsewhere: bool) -> str:
    elsewhere = sorted({_namespace(item) for item in objects if name_of(item) == name})
    if elsewhere and hints_elsewhere:
        others = f" and {len(elsewhere) - 1} more" if len(elsewhere) > 1 else ""
        return f"; one is in namespace {elsewhere[0]}{others}"
    names = {name_of(item) for item in objects if _namespace(item) == namespace}
    guess = closest(name[:_LONGEST_NAME], sorted(names), likeness=_LIKENESS)
    return f"; did you mean {guess}?" if guess else ""


def _namespace(item: Object) -> str:
    return namespace_of(item) or DEFAULT_NAMESPACE
