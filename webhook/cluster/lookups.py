"""Looks up an object of the cluster by the kind and name that a user gave."""

from __future__ import annotations

from heapq import nsmallest
from typing import TYPE_CHECKING, NamedTuple

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


class Hint(NamedTuple):
    """Another name or namespace that was probably meant."""

    text: str
    """Begins with a semicolon, without a full stop; empty if nothing is near."""
    namespace: str = ""
    """The namespace to look in, if it is another one."""

    @property
    def option(self) -> str:
        """The option of the command that leads to the other namespace, after the text."""
        return f": -n {self.namespace}" if self.namespace else ""


NO_HINT = Hint("")


class NotFoundError(LookupError):
    """The view does not show the object; the text says so, without a full stop."""

    def __init__(self, sentence: str, hint: Hint | None = None, *, is_certain: bool) -> None:
        hint = NO_HINT if hint is None else hint
        super().__init__(f"{sentence}{hint.text}")
        self.sentence = sentence
        self.hint = hint
        """Suggests another name or namespace."""
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
_MOST_COMPARED = 5_000
"""Names of which a hint is chosen, those of a similar length first; 100,000 take two seconds."""
_LONGEST_NAME = 253
"""Characters of a name, or of a kind with its group, that are read and shown."""


def all_resources(added: Iterable[AddedKind] = ()) -> tuple[Resource, ...]:
    """The resources of all kinds that can be explained; `added` are those of the settings."""
    own = (Resource(each.group, "", each.plural, each.kind, namespaced=True) for each in added)
    return (*_RESOURCES, *own)


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
    names = {resource: _names(resource) for resource in all_resources(added)}
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
    hint = name_hint([(resource, item) for item in objects], name, where, hints_elsewhere=hints_elsewhere)
    if not hint.text:
        others = [found for found in objects_named(view, name, where) if found[0].kind != resource.kind]
        hint = name_hint(others, name, where, hints_elsewhere=False)
    wanted = printable(f"{resource.kind} {name[:_LONGEST_NAME]} in namespace {where[:63]}")
    if found is UNKNOWN:
        because = f": {_KEPT[resource.kind]}" if resource.kind in _KEPT else ""
        raise NotFoundError(f"{wanted} is unknown{because}", hint, is_certain=False)
    raise NotFoundError(f"{wanted} not found", hint, is_certain=True)


def objects_named(view: ClusterView, name: str, namespace: str) -> list[tuple[Resource, Object]]:
    """The known objects with a name, of all kinds that can be explained."""
    found = ((resource, view.get(resource.kind, name, namespace)) for resource in _RESOURCES)
    return [(resource, item) for resource, item in found if isinstance(item, dict) and group_of(item) == resource.group]


def name_hint(
    objects: Iterable[tuple[Resource, Object]], name: str, namespace: str, *, hints_elsewhere: bool = True
) -> Hint:
    """The object that was probably meant, if none has the kind, name and namespace that were given.

    Args:
        objects: The objects of the kinds that may be meant, as far as they are known.
        name: The name that was given.
        namespace: The namespace that was given.
        hints_elsewhere: True if other namespaces may be named.
    """
    by_namespace: dict[str, dict[str, Resource]] = {}
    for resource, item in objects:
        by_namespace.setdefault(_namespace(item), {}).setdefault(name_of(item), resource)
    here = by_namespace.pop(namespace, {})
    if name in here:
        return Hint(f"; did you mean {reference(here[name], name)}?")
    elsewhere = sorted(by_namespace) if hints_elsewhere else []
    if same := [each for each in elsewhere if name in by_namespace[each]]:
        others = f" and {len(same) - 1} more" if len(same) > 1 else ""
        return Hint(f"; one is in namespace {same[0]}{others}", same[0])
    if near := _near(name, here):
        return Hint(f"; did you mean {reference(here[near], near)}?")
    places = {found: other for other in reversed(elsewhere) for found in by_namespace[other]}
    if near := _near(name, places):
        other = places[near]
        named = reference(by_namespace[other][near], near)
        return Hint(f"; did you mean {named}? It is in namespace {other}", other)
    return NO_HINT


def reference(resource: Resource, name: str) -> str:
    """A kind and a name as `explain` takes them: `claim/train`."""
    return f"{_names(resource)[0]}/{printable(name)}"


def _near(name: str, names: Iterable[str]) -> str | None:
    """The name of a pod of a workload with this name, or one that differs by a mistake."""
    known = sorted(names)
    if pod := next((each for each in known if each.startswith(f"{name}-")), None):
        return pod
    name = name[:_LONGEST_NAME]
    compared = nsmallest(_MOST_COMPARED, known, key=lambda each: abs(len(each) - len(name)))
    return closest(name, compared, likeness=_LIKENESS)


def _namespace(item: Object) -> str:
    return namespace_of(item) or DEFAULT_NAMESPACE
