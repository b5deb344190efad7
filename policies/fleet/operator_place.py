"""The namespaces where the GPU Operator looks for ConfigMaps and Secrets that its resources name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from policies.kubernetes.names import format_list, is_dns_label
from policies.kubernetes.objects import items_at, lookup, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.workloads import group_of
from policies.rules.settings import DEFAULTS

if TYPE_CHECKING:
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy

_PACKAGES = ("gpu-operator", "gpu-operator-certified")
"""The operator's packages in OperatorHub."""


class OperatorPlace(NamedTuple):
    """The namespaces of the GPU Operator."""

    namespaces: tuple[str, ...]
    """At least one; several only if the cluster or the settings name several."""
    is_guess: bool
    """True if they are only the defaults of the settings, so that an object that is not there may be elsewhere."""
    others: tuple[str, ...] = ()
    """Those of the settings, if only a Deployment or a Subscription shows another namespace."""

    def config_map_namespace(self, name: str, view: ClusterView) -> str:
        """The namespace of a ConfigMap whose manifest names none: one that has it, or else one that exists."""
        found = (each for each in self.namespaces if isinstance(view.get("ConfigMap", name, each), dict))
        existing = (each for each in self.namespaces if isinstance(view.get("Namespace", each), dict))
        return next(found, None) or next(existing, self.namespaces[0])


def operator_place(view: ClusterView, settings: GPUAdmissionPolicy) -> OperatorPlace:
    """The place by what the cluster shows, then by the settings, then by their defaults.

    It answers only where the operator looks for an object. No account is trusted for it: exemptions, leniency towards accounts
    and admin access follow the settings alone, because a tenant can make a Deployment that looks like the operator's. Such a
    Deployment adds a namespace only if nothing of the operator is in a namespace of the settings, and it never excludes those.

    Source: github.com/NVIDIA/gpu-operator controllers/clusterpolicy_controller.go, which writes `status.namespace`.
    """
    named = settings.configuration.operator_namespaces
    if by_status := view.derive(_status_namespaces):
        return OperatorPlace(by_status, is_guess=False)
    by_workloads = view.derive(_workload_namespaces)
    if both := tuple(each for each in by_workloads if each in named):
        return OperatorPlace(both, is_guess=False)
    if by_workloads:
        return OperatorPlace(by_workloads, is_guess=False, others=named)
    return OperatorPlace(named, is_guess=named == DEFAULTS.configuration.operator_namespaces)


def unnamed_namespaces_remark(view: ClusterView, settings: GPUAdmissionPolicy) -> str:
    """A remark with the line to add if the settings do not name the operator's namespace, or empty."""
    named, place = settings.configuration.operator_namespaces, operator_place(view, settings)
    others = [each for each in place.namespaces if each not in named]
    if not others:
        return ""
    line = f"configuration: {{operatorNamespaces: [{', '.join((*others, *named))}]}}"
    if place.others:
        return (
            f"a Deployment or Subscription in {format_list(others)} looks like the GPU Operator's, and "
            f"configuration.operatorNamespaces does not name it; if it is the operator's, write {line}, which also trusts "
            "the accounts there"
        )
    return (
        f"the GPU Operator runs in {format_list(others)}, which configuration.operatorNamespaces does not name, so ConfigMaps "
        f"there are not reviewed; write {line}"
    )


def _status_namespaces(view: ClusterView) -> tuple[str, ...]:
    """The namespaces in the status of cluster-scoped resources, which no tenant can write."""
    found: list[Any] = []
    for kind in ("ClusterPolicy", "NVIDIADriver"):
        # A manifest that replaces a stored object has no status.
        stored = view.list_before_review(kind)
        documents = (*(() if stored is UNKNOWN else stored), *view.known_or_reviewed(kind))
        found += [lookup(document, ("status", "namespace")) for document in documents]
    return _namespace_names(found)


def _workload_namespaces(view: ClusterView) -> tuple[str, ...]:
    """The namespaces of the operator's Deployment and Subscription, or of what looks like them.

    A server watches Deployments in the namespaces of the settings only, and no Subscriptions.
    """
    found = []
    for document in view.known_or_reviewed("Deployment"):
        containers = items_at(document, ("spec", "template", "spec", "containers"))
        is_image = any("gpu-operator" in str(lookup(each, ("image",))) for each in containers)
        if group_of(document) == "apps" and name_of(document) == "gpu-operator" and is_image:
            found.append(namespace_of(document))
    found += [
        namespace_of(document)
        for document in view.known_or_reviewed("Subscription")
        if group_of(document) == "operators.coreos.com" and lookup(document, ("spec", "name")) in _PACKAGES
    ]
    return _namespace_names(found)


def _namespace_names(found: list[Any]) -> tuple[str, ...]:
    """The valid names of namespaces, each once."""
    return tuple(dict.fromkeys(each for each in found if is_dns_label(each)))
