"""The concerns: the rules of each, imported when it is first judged.

Importing the rules on configuration takes longer than the offline review of a pod. A server calls `load_rules` at its
start, so that no request waits for an import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.admission.pods import is_of_mode
from policies.admission.workloads import workloads
from policies.conversion.exemptions import Mode
from policies.rules.decision import Decision
from policies.rules.registry import rules_on_demand
from policies.rules.settings import settings_for
from policies.rules.settings.exemptions import exemption

if TYPE_CHECKING:
    from policies.admission.workloads import Review
    from policies.kubernetes.view import ClusterView
    from policies.rules.request import Concern, Request
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["judge_concern", "judge_configuration", "load_rules"]


def judge_concern(
    concern: Concern, request: Request, view: ClusterView, settings: GPUAdmissionPolicy, review: Review
) -> Decision:
    """The findings and changes of a concern's rules, with their own severities.

    Empty in a namespace that is exempt from the concern.

    Args:
        concern: The concern.
        request: The request.
        view: The cluster.
        settings: The administrator's settings; exemptions of the user are applied here.
        review: Decides on the pods of a workload.
    """
    # A webhook's namespaceSelector has the default namespaces only, and a caller can forge a call.
    if exemption(concern, request.namespace, settings):
        return Decision(object=request.object)
    own = settings_for(request.user, request.namespace, settings)
    match concern:
        case "conversion":
            from policies.admission.conversion import conversion

            return conversion(request, view, own)
        case "preview":
            if not is_of_mode(request, Mode.PREVIEW, view):
                return Decision(object=request.object)
            from policies.admission.conversion import preview

            return preview(request, view, own)
        case "placement":
            from policies.admission.placement import placement

            return placement(request, view, own)
        case "reapply":
            from policies.admission.conversion import reapply

            return reapply(request, view, own)
        case "conversion-check":
            if not is_of_mode(request, Mode.ENABLED, view):
                return Decision(object=request.object)
            from policies.admission.conversion import conversion_check

            return conversion_check(request, view, own)
        case "access":
            from policies.admission.access import access

            return access(request, view, own)
        case "quota":
            from policies.admission.quota import quota

            return quota(request, view, own)
        case "workloads":
            # The author of a workload may be exempt, and the controller that creates its pods is not.
            return workloads(request, view, settings, review)
        case "claims":
            from policies.admission.claims import claims

            return claims(request, view, own)
        case "configuration":
            return judge_configuration(request, view, own)


def judge_configuration(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Decision:
    """The findings of `configuration` in any namespace; `settings` have the user's exemptions."""
    match request.group, request.kind:
        case "", "Namespace":
            from policies.admission.namespaces import namespaces

            return namespaces(request, view, settings)
        case "scheduling.k8s.io", "PriorityClass":
            from policies.admission.configuration import priority_classes

            return priority_classes(request, view, settings)
        case _:
            from policies.admission.configuration import configuration

            return configuration(request, view, settings)


@rules_on_demand
def load_rules() -> None:
    """Import every module that a review can need, which also registers every rule."""
    from policies.admission.access import access
    from policies.admission.claims import claims
    from policies.admission.configuration import configuration
    from policies.admission.conversion import conversion
    from policies.admission.documents import duplicate_keys
    from policies.admission.namespaces import namespaces
    from policies.admission.placement import placement
    from policies.admission.quota import quota
    from policies.admission.workload_charges import shortages
    from policies.placement.node_conditions import apply_wish

    # Importing a module registers its rules; the names are used here so that none is dropped as needless.
    _ = (access, claims, configuration, conversion, duplicate_keys, namespaces, placement, quota, shortages, apply_wish)
