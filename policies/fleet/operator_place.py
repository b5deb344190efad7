"""Where the GPU Operator looks for the ConfigMaps and Secrets that its resources name."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.kubernetes.names import format_list
from policies.kubernetes.objects import items_at, lookup, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN
from policies.rules.settings import DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy

_PACKAGES = ("gpu-operator", "gpu-operator-certified")


class OperatorPlace(NamedTuple):
    """The namespaces of the GPU Operator."""

    namespaces: tuple[str, ...]
    """At least one; several only if the cluster or the settings name several."""
    is_shown: bool
    """True if the cluster shows them."""
    is_guess: bool
    """True if they are only the defaults of the settings, so that an object that is not there may be elsewhere."""


def operator_place(view: ClusterView, settings: GPUAdmissionPolicy) -> OperatorPlace:
    """The place by what the cluster shows, then by the settings, then by their defaults.

    It answers only where the operator looks for an object. No account is trusted for it: exemptions, leniency towards accounts
    and admin access follow the settings alone, because a tenant can make a Deployment that looks like the operator's.

    Source: github.com/NVIDIA/gpu-operator controllers/clusterpolicy_controller.go, which writes `status.namespace`.
    """
    if shown := tuple(dict.fromkeys(_shown_namespaces(view))):
        return OperatorPlace(shown, is_shown=True, is_guess=False)
    named = settings.configuration.operator_namespaces
    return OperatorPlace(named, is_shown=False, is_guess=named == DEFAULTS.configuration.operator_namespaces)


def unnamed_places(view: ClusterView, settings: GPUAdmissionPolicy) -> str:
    """The remark that the operator runs where the settings do not look, with the line to add; or empty."""
    place, named = operator_place(view, settings), settings.configuration.operator_namespaces
    others = [each for each in place.namespaces if each not in named] if place.is_shown else []
    if not others:
        return ""
    return (
        f"the GPU Operator runs in {format_list(others)}, which configuration.operatorNamespaces does not name, so ConfigMaps "
        f"there are not reviewed; write configuration: {{operatorNamespaces: [{', '.join((*others, *named))}]}}"
    )


def _shown_namespaces(view: ClusterView) -> Iterator[str]:
    """The namespaces in the status of its resources, of its Deployment, and of its Subscription.

    A server watches Deployments in the namespaces of the settings only, and no Subscriptions.
    """
    for kind in ("ClusterPolicy", "NVIDIADriver"):
        # A manifest that replaces a stored object has no status.
        stored = view.list_before_review(kind)
        for document in (*(() if stored is UNKNOWN else stored), *view.known_or_reviewed(kind)):
            namespace = lookup(document, ("status", "namespace"))
            if isinstance(namespace, str) and namespace:
                yield namespace
    for document in view.known_or_reviewed("Deployment"):
        containers = items_at(document, ("spec", "template", "spec", "containers"))
        is_named = name_of(document) == "gpu-operator" and namespace_of(document)
        if is_named and any("gpu-operator" in str(lookup(each, ("image",))) for each in containers):
            yield namespace_of(document)
    for document in view.known_or_reviewed("Subscription"):
        if lookup(document, ("spec", "name")) in _PACKAGES and namespace_of(document):
            yield namespace_of(document)
