"""Looks up an object of the cluster by the kind and name that a user gave."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.workloads import group_of
from policies.view import UNKNOWN
from webhook.cluster.resources import RESOURCES, WORKLOAD_RESOURCES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object
    from policies.settings import AddedKind
    from policies.view import ClusterView
    from webhook.cluster.resources import Resource

__all__ = ["Kind", "KindUnknownError", "NotFoundError", "find_kind", "look_up"]

_DEFAULT_NAMESPACE = "default"


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


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind that can be explained: pods, workloads, claims and their templates."""

    name: str
    group: str
    short: str = ""
    """The short name, as `kubectl api-resources` lists it."""
    alias: str = ""
    """Our own short name."""

    @property
    def words(self) -> tuple[str, ...]:
        """The accepted names of the kind, the usual one first."""
        lower = self.name.lower()
        return tuple(word for word in (self.alias, lower, f"{lower}s", self.short) if word)

    @property
    def resource(self) -> str:
        """The unambiguous name for `kubectl get`: `pods` or `jobs.batch`."""
        plural = f"{self.name.lower()}s"
        return f"{plural}.{self.group}" if self.group else plural


def _kind(resource: Resource, alias: str = "") -> Kind:
    return Kind(resource.kind, resource.group, next(iter(resource.short_names), ""), alias)


_KINDS = (
    _kind(RESOURCES["Pod"]),
    _kind(RESOURCES["ResourceClaim"], "claim"),
    _kind(RESOURCES["ResourceClaimTemplate"], "template"),
    *map(_kind, WORKLOAD_RESOURCES.values()),
)
_KEPT = {"Pod": "only pods that may get GPUs, and have not ended, are known by name"}
"""Which objects a live view keeps, for kinds that it keeps only in part."""


def find_kind(text: str, added: Iterable[AddedKind] = ()) -> Kind:
    """The kind with a name such as `pod`, `deploy`, `resourceclaims` or `job.batch`.

    Args:
        text: The name.
        added: The kinds that the settings add.

    Raises:
        KindUnknownError: No kind that can be explained has this name.
    """
    word, _, group = text.lower().partition(".")
    kinds = [*_KINDS, *(Kind(each.kind, each.group, each.plural) for each in added)]
    for kind in kinds:
        if word in kind.words and group in ("", kind.group):
            return kind
    usual = {each: kind.words[0] for kind in reversed(kinds) for each in kind.words}
    alike = get_close_matches(word, usual, n=1)
    every = ", ".join(dict.fromkeys(kind.words[0] for kind in kinds))
    hint = f"did you mean {usual[alike[0]]}?" if alike else f"supported kinds: {every}"
    raise KindUnknownError(f"unknown kind {text[:100]}; {hint}")


def look_up(view: ClusterView, kind: Kind, name: str, namespace: str = "") -> Object:
    """One object of a cluster.

    Args:
        view: The cluster.
        kind: The kind; an object of another group with the same kind does not count.
        name: Its name.
        namespace: Its namespace; empty for `default`.

    Raises:
        NotFoundError: The view does not show it.
    """
    where = namespace or _DEFAULT_NAMESPACE
    found = view.get(kind.name, name, where)
    if isinstance(found, dict) and group_of(found) == kind.group:
        return found
    listed = view.list(kind.name)
    if listed is UNKNOWN:
        raise NotFoundError(f"{kind.name}s are unknown", is_certain=False)
    objects = [item for item in listed if group_of(item) == kind.group]
    for item in objects:
        if name_of(item) == name and _namespace(item) == where:
            return item
    hint = _hint(objects, name, where)
    wanted = f"{kind.name} {name[:253]} in namespace {where[:63]}"
    if found is UNKNOWN:
        because = f": {_KEPT[kind.name]}" if kind.name in _KEPT else ""
        raise NotFoundError(f"{wanted} is unknown{because}", hint, is_certain=False)
    raise NotFoundError(f"{wanted} not found", hint, is_certain=True)


def _hint(objects: list[Object], name: str, namespace: str) -> str:
    elsewhere = sorted({_namespace(item) for item in objects if name_of(item) == name})
    if elsewhere:
        others = f" and {len(elsewhere) - 1} more" if len(elsewhere) > 1 else ""
        return f"; one is in namespace {elsewhere[0]}{others}"
    alike = get_close_matches(name, {name_of(item) for item in objects if _namespace(item) == namespace}, n=1)
    return f"; did you mean {alike[0]}?" if alike else ""


def _namespace(item: Object) -> str:
    return namespace_of(item) or _DEFAULT_NAMESPACE
