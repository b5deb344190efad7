"""The question of one pod: as it is after review, with the claims that it would have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.conversion.rules import UNSATISFIABLE
from policies.decision import Severity
from policies.explanation.claims_of_pods import claims_of_pod, whereabouts
from policies.explanation.class_facts import class_obstacles
from policies.explanation.obstacles import Obstacle, ObstacleKind
from policies.explanation.question import Question
from policies.fleet.node_sizes import MORE_THAN_A_NODE
from policies.kubernetes.amounts import pod_amounts
from policies.kubernetes.objects import controller_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.pods import MalformedPodError, Pod
from policies.pod_creation import created_pod
from policies.request import Request
from policies.review import review
from policies.view import PassingView

if TYPE_CHECKING:
    from policies.decision import Decision, Finding, Template
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView, Unknown

__all__ = ["pod_question", "refusals"]

_OF_PLACEMENT = "GA4"
"""With which the rules begin that tell where a pod's GPUs come from."""
_OVER_QUOTA = "GA502"
_REFUSED_NOW = "unless these pods hold themselves what is used, they are refused until there is room"


def pod_question(
    document: Object, label: str, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, *, stored: bool
) -> Question:
    """The question of a pod in a namespace; of one that is stored as it is, of another as review would leave it."""
    templates: tuple[Template, ...] = ()
    written: Object | None = None
    warnings: tuple[Finding, ...] = ()
    tolerated, conditions = _tolerated(document), _conditions(document)
    if not stored:
        written = created_pod(document, namespace, view)
        decision, warnings = _reviewed(written, namespace, view, settings)
        if refused := refusals(decision):
            return Question(label, namespace, obstacles=refused, warnings=warnings)
        document, templates = decision.object, decision.templates
    try:
        pod = Pod.read(document)
    except MalformedPodError as error:
        broken = [Obstacle(ObstacleKind.MALFORMED, f"{path} {sentence}") for path, sentence in error.problems]
        return Question(label, namespace, obstacles=tuple(broken))
    claims, missing = claims_of_pod(pod, namespace, templates, view)
    open_claims, allocated, blocking = whereabouts(claims, str(lookup(document, ("metadata", "name")) or ""))
    return Question(
        label=label,
        namespace=namespace,
        pod=pod,
        written=written,
        claims=open_claims,
        allocated=allocated,
        resources={name: amount for name, amount in pod_amounts(pod.spec).items() if amount > 0},
        tolerations_added=tuple(key for key in _tolerated(document) if key not in tolerated),
        conditions_added=not templates and _conditions(document) != conditions,
        converted_to=templates[0].name if templates else "",
        node_name=pod.spec.get("nodeName") or "",
        obstacles=(*missing, *blocking, *class_obstacles(open_claims, view)),
        warnings=warnings,
    )


def _reviewed(
    pod: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy
) -> tuple[Decision, tuple[Finding, ...]]:
    """What review decides on a pod, and what it warns about.

    A pod of a workload is not refused for its namespace's quota: what is used may be the workload's own pods, and then
    it is one of these.
    """
    request = Request(pod, namespace=namespace)
    decision = review(request, view, settings)
    over = [finding for finding in decision.denials if finding.rule == _OVER_QUOTA]
    if not over or controller_of(pod) is None:
        return decision, _warnings(decision)
    decision = review(request, _WithoutQuota(view), settings)
    told = (replace(each, severity=Severity.WARN, message=f"{_REFUSED_NOW}: {each.message}") for each in over)
    return decision, (*_warnings(decision), *told)


class _WithoutQuota(PassingView):
    """The cluster as if namespaces had no GPUQuota."""

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None when it certainly does not exist."""
        return None if kind == "GPUQuota" else super().get(kind, name, namespace)


def _tolerated(pod: Object) -> list[str]:
    """The keys of a pod's tolerations."""
    tolerations = lookup(pod, ("spec", "tolerations"))
    listed = tolerations if isinstance(tolerations, list) else []
    return [str(lookup(each, ("key",)) or "") for each in listed]


def _conditions(pod: Object) -> tuple[Any, Any]:
    """What a pod wants of the labels of its node."""
    return lookup(pod, ("spec", "nodeSelector")), lookup(pod, ("spec", "affinity"))


def _warnings(decision: Decision) -> tuple[Finding, ...]:
    """What review warns about placement; of a pod that is converted, whether any device is as it asks too.

    How many GPUs each node has is told for each node.
    """
    return tuple(
        finding
        for finding in decision.findings
        if finding.severity is Severity.WARN
        and finding.rule != MORE_THAN_A_NODE.id
        and (finding.rule.startswith(_OF_PLACEMENT) or (finding.rule == UNSATISFIABLE.id and decision.templates))
    )


def refusals(decision: Decision) -> tuple[Obstacle, ...]:
    """Why review refuses an object, if it does."""
    return tuple(
        Obstacle(
            ObstacleKind.REFUSED,
            f"{finding.path}: {finding.message}" if finding.path else finding.message,
            finding.remedy,
            finding.rule,
        )
        for finding in decision.denials
    )
