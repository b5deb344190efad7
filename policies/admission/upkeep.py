"""Upkeep of templates: the missing ones, and those that future pods of workloads will need.

Both come from reviews of pods, as the webhook does them, so that only templates of conversion are created or kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.admission.reviews import review_concern
from policies.admission.workload_templates import templates_of
from policies.conversion.exemptions import Mode, mode_of
from policies.conversion.templates import is_our_name, references
from policies.kubernetes.bounds import count_work
from policies.kubernetes.names import MANAGED
from policies.kubernetes.objects import controller_of, has_ended, lookup, namespace_of
from policies.kubernetes.pod_templates import pod_of, with_defaults
from policies.rules.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.conversion.templates import Key
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Template
    from policies.rules.settings import GPUAdmissionPolicy


_POD_UNITS, _CONVERSION_UNITS = 4, 500
"""Units of work to look at a pod, and to convert one."""


def missing_templates(pods: Iterable[Object], view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[Template, ...]:
    """The templates that converted pods wait for and that do not exist.

    A pod that has a node has its claims already. Marks alone prove nothing: the template must be that of the pod's
    conversion, in a namespace that converts, and must have the name that the pod refers to.
    """
    missing: dict[Key, Template] = {}
    for pod in pods:
        count_work(_POD_UNITS)
        namespace = namespace_of(pod)
        names = {name for name in references(pod) if is_our_name(name) and (namespace, name) not in missing}
        if not names or not _waits(pod) or mode_of(namespace, view) is not Mode.ENABLED:
            continue
        if all(view.get("ResourceClaimTemplate", name, namespace) is not None for name in names):
            continue
        for template in templates_made_for(pod, namespace, view, settings):
            if template.name in names and view.get("ResourceClaimTemplate", template.name, namespace) is None:
                missing[namespace, template.name] = template
    return tuple(missing.values())


def needed_by_workloads(workloads: Iterable[Object], view: ClusterView, settings: GPUAdmissionPolicy) -> frozenset[Key]:
    """The templates of pods that workloads will create: by conversion, or named in their templates.

    Objects with a controller are skipped, such as a ReplicaSet of a Deployment: the templates of the owner count.
    """
    needed: set[Key] = set()
    for workload in workloads:
        namespace = namespace_of(workload)
        if controller_of(workload) is not None:
            continue
        for found in templates_of(workload, view, settings):
            needed.update((namespace, name) for name in references(found.template))
            if mode_of(namespace, view) in (Mode.ENABLED, Mode.UNKNOWN):
                pod = pod_of(with_defaults(found.template), workload, namespace)
                needed.update((namespace, made.name) for made in templates_made_for(pod, namespace, view, settings))
    return frozenset(needed)


def _waits(pod: Object) -> bool:
    """True if a pod has our mark and still waits for a node."""
    return (
        lookup(pod, ("metadata", "labels", MANAGED)) == "true"
        and lookup(pod, ("metadata", "deletionTimestamp")) is None
        and not lookup(pod, ("spec", "nodeName"))
        and not has_ended(pod)
    )


def templates_made_for(
    pod: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy
) -> tuple[Template, ...]:
    """The templates that conversion makes for a pod, converted or not."""
    count_work(_CONVERSION_UNITS)
    return review_concern("conversion", Request(pod, namespace=namespace), view, settings).templates
