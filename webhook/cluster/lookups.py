"""Looking up an object of the cluster by the kind and name that a person or a program wrote."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.workloads import WORKLOAD_KINDS, group_of
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object
    from policies.settings import AddedKind
    from policies.view import ClusterView

__all__ = ["Kind", "KindUnknownError", "NotFoundError", "kind_called", "look_up"]

_DEFAULT_NAMESPACE = "default"


class KindUnknownError(ValueError):
    """A word that is no kind with a place on nodes. Its text says which are, without a full stop."""


class NotFoundError(LookupError):
    """An object that the view does not show. Its text says so, without a full stop."""

    def __init__(self, sentence: str, hint: str = "", *, is_certain: bool) -> None:
        super().__init__(f"{sentence}{hint}")
        self.sentence = sentence
        self.hint = hint
        """What else may have been meant; begins with a semicolon where there is anything."""
        self.is_certain = is_certain
        """Whether the object does not exist; otherwise nobody here knows."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects that find a place on nodes: pods, what makes pods, and what allocates devices for them."""

    name: str
    group: str
    short: str = ""
    """What kubectl lets people write instead, as `kubectl api-resources` lists it."""
    alias: str = ""
    """What we let people write instead."""

    @property
    def words(self) -> tuple[str, ...]:
        """What the kind can be called, the usual word first."""
        lower = self.name.lower()
        return tuple(word for word in (self.alias, lower, f"{lower}s", self.short) if word)

    @property
    def resource(self) -> str:
        """What `kubectl get` calls it without a doubt, `pods` or `jobs.batch`."""
        plural = f"{self.name.lower()}s"
        return f"{plural}.{self.group}" if self.group else plural


_SHORT = {
    "CronJob": "cj",
    "DaemonSet": "ds",
    "Deployment": "deploy",
    "LeaderWorkerSet": "lws",
    "ReplicaSet": "rs",
    "ReplicationController": "rc",
    "StatefulSet": "sts",
}
_KINDS = (
    Kind("Pod", "", "po"),
    Kind("ResourceClaim", "resource.k8s.io", alias="claim"),
    Kind("ResourceClaimTemplate", "resource.k8s.io", alias="template"),
    *(Kind(name, group, _SHORT.get(name, "")) for group, name in WORKLOAD_KINDS),
)
_KEPT = {"Pod": "only pods that may get GPUs, and have not ended, are known by name"}
"""What is known of kinds of which a live view does not know all objects."""


def kind_called(text: str, added: Iterable[AddedKind] = ()) -> Kind:
    """The kind that a word means: `pod`, `deploy`, `resourceclaims`, or as `kubectl -o name` prints it, `job.batch`.

    Args:
        text: The word.
        added: The kinds that the settings add.

    Raises:
        KindUnknownError: no kind that can be explained is called that.
    """
    word, _, group = text.lower().partition(".")
    kinds = [*_KINDS, *(Kind(each.kind, each.group, each.plural) for each in added)]
    for kind in kinds:
        if word in kind.words and group in ("", kind.group):
            return kind
    usual = {each: kind.words[0] for kind in reversed(kinds) for each in kind.words}
    alike = get_close_matches(word, usual, n=1)
    every = ", ".join(dict.fromkeys(kind.words[0] for kind in kinds))
    hint = f"did you mean {usual[alike[0]]}?" if alike else f"there are {every}"
    raise KindUnknownError(f"there is no kind {text[:100]} to look up; {hint}")


def look_up(view: ClusterView, kind: Kind, name: str, namespace: str = "") -> Object:
    """One object of a cluster.

    Args:
        view: The cluster.
        kind: What to look for; an object of another group whose kind has the same name is another one.
        name: Its name.
        namespace: Where it is; empty for `default`.

    Raises:
        NotFoundError: the view does not show it.
    """
    where = namespace or _DEFAULT_NAMESPACE
    found = view.get(kind.name, name, where)
    if isinstance(found, dict) and group_of(found) == kind.group:
        return found
    listed = view.list(kind.name)
    if listed is UNKNOWN:
        raise NotFoundError(f"no {kind.name}s are known", is_certain=False)
    objects = [item for item in listed if group_of(item) == kind.group]
    for item in objects:
        if name_of(item) == name and _home_of(item) == where:
            return item
    hint = _hint(objects, name, where)
    called = f"{kind.name} {name[:253]} in namespace {where[:63]}"
    if found is UNKNOWN:
        because = f": {_KEPT[kind.name]}" if kind.name in _KEPT else ""
        raise NotFoundError(f"{called} is not known{because}", hint, is_certain=False)
    raise NotFoundError(f"there is no {called}", hint, is_certain=True)


def _hint(objects: list[Object], name: str, namespace: str) -> str:
    elsewhere = sorted({_home_of(item) for item in objects if name_of(item) == name})
    if elsewhere:
        others = f" and {len(elsewhere) - 1} more" if len(elsewhere) > 1 else ""
        return f"; one is in namespace {elsewhere[0]}{others}"
    alike = get_close_matches(name, {name_of(item) for item in objects if _home_of(item) == namespace}, n=1)
    return f"; did you mean {alike[0]}?" if alike else ""


def _home_of(item: Object) -> str:
    return namespace_of(item) or _DEFAULT_NAMESPACE
