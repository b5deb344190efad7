"""Outcomes: what conversion would make of a pod, asked once for pods that are alike."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from policies.conversion.opt_in import strategy_of
from policies.conversion.record import converted_by
from policies.conversion.rules import CHOSEN, PREEMPTION
from policies.fleet import RequestKind, extended_requests
from policies.kubernetes.pods import MalformedPodError, Pod
from policies.request import Request
from policies.review import review
from policies.settings.exempt_namespaces import exemption_in_cluster

if TYPE_CHECKING:
    from policies.decision import Finding
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["Outcome", "Outcomes", "Verdict", "asks_device_plugin", "is_converted"]


class Verdict(Enum):
    """What becomes of a pod in a namespace that converts."""

    CONVERTS = "converts"
    """It is converted."""
    STAYS = "stays"
    """It stays as it is and gets its GPUs by DRA: a DeviceClass stands for what it asks for."""
    LEFT = "left"
    """It stays with the device plugin."""
    REFUSED = "refused"


class Outcome(NamedTuple):
    """A verdict, and what was said."""

    verdict: Verdict
    findings: tuple[Finding, ...]
    """What refuses the pod, keeps it from being converted, or is lost by its conversion."""


class Outcomes:
    """Asks the entry `conversion`, whatever the namespaces have chosen."""

    def __init__(self, view: ClusterView, settings: GPUAdmissionPolicy) -> None:
        self._view = view
        self._settings = settings
        self._known: dict[tuple[str, bytes], Outcome] = {}

    def never_converts(self, namespace: str) -> bool:
        """True if a namespace is exempt from conversion, whatever its label says."""
        return bool(exemption_in_cluster("conversion", namespace, self._settings))

    def of(self, namespace: str, form: bytes, pod: Object) -> Outcome:
        """What becomes of a pod as it is created, known by its form."""
        known = self._known.get((namespace, form))
        if known is None:
            known = self._known[namespace, form] = self._asked(namespace, pod)
        return known

    def _asked(self, namespace: str, pod: Object) -> Outcome:
        decision = review(Request(pod, namespace=namespace, entry="conversion"), self._view, self._settings)
        if not decision.allowed:
            return Outcome(Verdict.REFUSED, decision.denials)
        if decision.patch:
            lost = tuple(finding for finding in decision.findings if finding.rule == PREEMPTION.id)
            return Outcome(Verdict.CONVERTS, lost)
        leaves = strategy_of(namespace, self._view) in ("leave", "auto")
        if leaves and all(finding.rule == CHOSEN.id for finding in decision.findings):
            return Outcome(Verdict.STAYS, ())
        return Outcome(Verdict.LEFT, decision.findings)


def asks_device_plugin(pod: Object, view: ClusterView) -> bool:
    """True if a pod of any shape requests a resource of the device plugin."""
    return any(each.kind is RequestKind.DEVICE_PLUGIN for each in extended_requests(pod, view))


def is_converted(pod: Object, namespace: str) -> bool:
    """Whether a pod was converted, as far as its marks prove themselves."""
    try:
        return converted_by(Pod.read(pod), namespace) is not None
    except MalformedPodError:
        return False
