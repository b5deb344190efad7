"""Charging: what an object that is being created asks of its namespace's quota."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from policies.kubernetes.paths import lookup
from policies.kubernetes.pods import MalformedPodError, Pod
from policies.quota.asks.claims import asks_of_claim
from policies.quota.asks.pods import asks_of_pod, got_by_pod, priority_class_of
from policies.quota.bills import UnknownMemory, UnknownProduct, bill
from policies.quota.charges import OWN, Charge
from policies.quota.charging.made import made_for, narrowed
from policies.quota.opt_in import is_enforced

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.checks import Problem
    from policies.kubernetes.objects import Object
    from policies.quota.charges import Ask
    from policies.quota.limits.quota import Quota
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.settings.choices import Quotas
    from policies.view import ClusterView

__all__ = ["Charging", "Key", "Uncountable", "charging"]

Key = tuple[str, str, str]
"""Kind, namespace and name of an object."""


class Uncountable(Exception):  # noqa: N818 - it says what is
    """Nobody can say what an object comes to under a quota."""

    def __init__(self, unknown: UnknownProduct | UnknownMemory, mode: Literal["Enforce", "Warn"]) -> None:
        super().__init__(unknown.text)
        self.unknown = unknown
        self.mode = mode
        """Of the quota."""


@dataclass(frozen=True, slots=True)
class Charging:
    """What an object that is being created asks of its namespace's quota."""

    uid: str
    kind: Literal["Pod", "ResourceClaim"]
    namespace: str
    name: str
    pieces: Mapping[str, tuple[Ask, ...]]
    """As `Charge` has them."""
    enforced: bool
    """Whether the namespace's quota fails closed."""
    of: tuple[str, str] | None = None
    """For a claim that somebody trusted made for a pod: the pod's uid, and for which piece of it."""
    owner: str = ""
    """That pod's name."""
    problems: tuple[Problem, ...] = ()
    """What it names and does not exist, and what is charged therefore."""
    unseen: tuple[Key, ...] = ()
    """Objects that the view does not show and that decide: templates that a pod names, the pod that a claim is for."""

    def charge(self, quota: Quota) -> Charge:
        """What it comes to under a quota.

        Raises:
            Uncountable: nobody can say.
        """
        bills = {}
        for piece, asks in self.pieces.items():
            found = bill(asks, quota)
            if isinstance(found, UnknownProduct | UnknownMemory):
                raise Uncountable(found, quota.mode)
            bills[piece] = found
        return Charge(self.uid, self.kind, self.namespace, self.name, bills, self.of)


def charging(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Charging | None:
    """What a request asks of its namespace's quota; None where it creates nothing that could get a GPU.

    A pod that cannot be read asks for nothing: the API server stores none.

    Args:
        request: What it says of the namespace's label by the entry that was called counts before what the view shows.
        view: The cluster, with nodes, classes, slices, templates, and the pods that claims are made for.
        settings: How quotas count, and who makes the claims of pods.
    """
    if request.operation != "CREATE" or request.subresource or not isinstance(request.object, dict):
        return None
    if (request.group, request.kind) == ("", "Pod"):
        return _of_pod(request.object, request, view, settings.quota)
    if (request.group, request.kind) == ("resource.k8s.io", "ResourceClaim"):
        return _of_claim(request.object, request, view, settings.quota)
    return None


def _of_pod(document: Object, request: Request, view: ClusterView, settings: Quotas) -> Charging | None:
    try:
        pod = Pod.read(document)
    except MalformedPodError:
        return None
    asked = asks_of_pod(pod, request.namespace, view, settings)
    if not asked.pieces and not asked.problems:
        return None
    pieces = asked.pieces
    if pod.past_scheduling and OWN in pieces:
        pieces = {**pieces, OWN: got_by_pod(pod, view, settings)}
    names = dict.fromkeys(entry.get("resourceClaimTemplateName") for entry in pod.resource_claims)
    unseen = tuple(
        ("ResourceClaimTemplate", request.namespace, name)
        for name in names
        if name and not isinstance(view.get("ResourceClaimTemplate", name, request.namespace), dict)
    )
    return replace(_nothing("Pod", document, request, view), pieces=pieces, problems=asked.problems, unseen=unseen)


def _of_claim(claim: Object, request: Request, view: ClusterView, settings: Quotas) -> Charging | None:
    made = made_for(claim) if request.user.username in settings.trusted_creators else None
    pod = None if made is None else made.owner(request.namespace, view)
    asked = asks_of_claim(claim, view, settings, None if pod is None else priority_class_of(pod))
    if not asked.asks:
        return None
    found = replace(_nothing("ResourceClaim", claim, request, view), pieces={OWN: asked.asks}, problems=asked.problems)
    if made is None:
        return found
    found = replace(found, of=(made.uid, made.piece), owner=made.pod)
    if pod is None:
        return replace(found, unseen=(("Pod", request.namespace, made.pod),))
    if made.piece == OWN:
        return replace(found, pieces={OWN: narrowed(asked.asks, got_by_pod(pod, view, settings))})
    return found


def _nothing(kind: Literal["Pod", "ResourceClaim"], document: Object, request: Request, view: ClusterView) -> Charging:
    """A charging of an object without its pieces; one out of a file may have neither uid nor name."""
    uid = _text(document, "uid") or request.uid
    name = _text(document, "name") or request.name or _text(document, "generateName") or uid
    return Charging(uid, kind, request.namespace, name, {}, _fails_closed(request, view))


def _fails_closed(request: Request, view: ClusterView) -> bool:
    """Whether the quota does; the API server has read the namespace's label when it calls one of the two entries."""
    if request.entry in _ENTRIES:
        return _ENTRIES[request.entry]
    return is_enforced(request.namespace, view)


_ENTRIES = {"quota-enforced": True, "quota": False}


def _text(document: Object, field: str) -> str:
    found = lookup(document, ("metadata", field))
    return found if isinstance(found, str) else ""
