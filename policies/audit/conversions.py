"""The result of converting existing pods, computed once for pods of one form."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from policies.admission import review_concern
from policies.conversion.converted_pods import conversion_record
from policies.conversion.opt_in import strategy_of
from policies.conversion.preemption import PREEMPTION
from policies.conversion.strategies import CHOSEN
from policies.fleet import RequestKind, extended_requests
from policies.kubernetes.pods import MalformedPodError, Pod
from policies.request import Request
from policies.settings.exempt_namespaces import exemption_in_cluster

if TYPE_CHECKING:
    from policies.decision import Finding
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["Conversion", "ConversionResult", "Conversions", "is_converted", "requests_device_plugin"]


class ConversionResult(Enum):
    """What happens to a pod in a namespace that converts."""

    CONVERTED = "converted"
    UNNEEDED = "unneeded"
    """The pod stays as it is and gets its GPUs by DRA: a DeviceClass stands for the resource that it requests."""
    DEVICE_PLUGIN = "device plugin"
    """The pod stays as it is and gets its GPUs from the device plugin."""
    REFUSED = "refused"


class Conversion(NamedTuple):
    """The result of converting an existing pod."""

    result: ConversionResult
    findings: tuple[Finding, ...]
    """Why the pod is refused or not converted, or what it loses by conversion."""


class Conversions:
    """Converts pods as at their creation, whatever the labels of their namespaces."""

    def __init__(self, view: ClusterView, settings: GPUAdmissionPolicy) -> None:
        self._view = view
        self._settings = settings
        self._by_form: dict[tuple[str, bytes], Conversion] = {}

    def never_converts(self, namespace: str) -> bool:
        """True if a namespace is exempt from conversion, whatever its label says."""
        return bool(exemption_in_cluster("conversion", namespace, self._settings))

    def of(self, namespace: str, form: bytes, pod: Object) -> Conversion:
        """The conversion of a pod as it is created; the same for all pods of this form."""
        key = (namespace, form)
        if key not in self._by_form:
            self._by_form[key] = self._conversion(namespace, pod)
        return self._by_form[key]

    def _conversion(self, namespace: str, pod: Object) -> Conversion:
        decision = review_concern("conversion", Request(pod, namespace=namespace), self._view, self._settings)
        if not decision.allowed:
            return Conversion(ConversionResult.REFUSED, decision.denials)
        if decision.patch:
            lost = tuple(finding for finding in decision.findings if finding.rule is PREEMPTION)
            return Conversion(ConversionResult.CONVERTED, lost)
        leaves = strategy_of(namespace, self._view) in ("leave", "auto")
        if leaves and all(finding.rule is CHOSEN for finding in decision.findings):
            return Conversion(ConversionResult.UNNEEDED, ())
        return Conversion(ConversionResult.DEVICE_PLUGIN, decision.findings)


def requests_device_plugin(pod: Object, view: ClusterView) -> bool:
    """True if a pod of any shape requests a resource of the device plugin."""
    return any(each.kind is RequestKind.DEVICE_PLUGIN for each in extended_requests(pod, view))


def is_converted(pod: Object) -> bool:
    """True if a pod was converted, as far as its marks prove it."""
    try:
        return conversion_record(Pod.read(pod)) is not None
    except MalformedPodError:
        return False
