"""The question of one pod: as it is after review, with the claims that it would have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.conversion.rules import UNSATISFIABLE
from policies.decision import Severity
from policies.explanation.claims_of_pods import claims_of_pod, whereabouts
from policies.explanation.class_facts import class_obstacles
from policies.explanation.obstacles import Obstacle, ObstacleKind
from policies.explanation.question import Question
from policies.kubernetes.amounts import pod_amounts
from policies.kubernetes.defaults import with_defaults
from policies.kubernetes.paths import lookup
from policies.kubernetes.pods import MalformedPodError, Pod
from policies.request import Request
from policies.review import review

if TYPE_CHECKING:
    from policies.decision import Decision, Finding, Template
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["pod_question", "refusals"]

_OF_PLACEMENT = "GA4"
"""With which the rules begin that tell where a pod's GPUs come from."""


def pod_question(
    document: Object, label: str, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, *, stored: bool
) -> Question:
    """The question of a pod in a namespace; of one that is stored as it is, of another as review would leave it."""
    templates: tuple[Template, ...] = ()
    written: Object | None = None
    warnings: tuple[Finding, ...] = ()
    tolerated, conditions = _tolerated(document), _conditions(document)
    if not stored:
        written = with_defaults(document)
        decision = review(Request(written, namespace=namespace), view, settings)
        warnings = _warnings(decision)
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


def _tolerated(pod: Object) -> list[str]:
    """The keys of a pod's tolerations."""
    tolerations = lookup(pod, ("spec", "tolerations"))
    listed = tolerations if isinstance(tolerations, list) else []
    return [str(lookup(each, ("key",)) or "") for each in listed]


def _conditions(pod: Object) -> tuple[Any, Any]:
    """What a pod wants of the labels of its node."""
    return lookup(pod, ("spec", "nodeSelector")), lookup(pod, ("spec", "affinity"))


def _warnings(decision: Decision) -> tuple[Finding, ...]:
    """What review warns about placement; of a pod that is converted, whether any device is as it asks too."""
    return tuple(
        finding
        for finding in decision.findings
        if finding.severity is Severity.WARN
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
