"""The questions of a document: one for each of its pods, or one for a claim or claim template."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.conversion.satisfaction import UNSATISFIABLE
from policies.decision import Severity
from policies.dra.resource_claims import claim_as_v1
from policies.explanation.claims import claims_of_pod, class_obstacles, is_stored, split_claims
from policies.explanation.question import NamedClaim, Obstacle, ObstacleKind, Question
from policies.fleet.node_sizes import MORE_THAN_A_NODE
from policies.kubernetes.amounts import pod_amounts
from policies.kubernetes.objects import controller_of, name_of, namespace_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.pod_templates import pod_of
from policies.kubernetes.pods import MalformedPodError, Pod
from policies.kubernetes.workloads import group_of
from policies.pod_creation import created_pod
from policies.quota.charging.outcomes import FITS
from policies.request import Request
from policies.review import review
from policies.view import PassingView
from policies.workload_templates import templates_of

if TYPE_CHECKING:
    from policies.decision import Decision, Finding, Template
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView, Unknown

__all__ = ["pod_question", "questions", "refusals"]

_RESOURCE = "resource.k8s.io"


def questions(
    document: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, *, found: bool = False
) -> tuple[Question, ...]:
    """The questions of a Pod, a workload with pod templates, a ResourceClaim or a ResourceClaimTemplate.

    What is stored in the cluster already (it was found there, or has a uid) is taken as it is; what is not goes through
    `review` first, as it would when it is created. The pods of a workload are still to be created.

    Args:
        document: the object; none of the kinds above gives no question.
        namespace: where the object would be created, if it does not say itself.
        view: the cluster.
        settings: by which `review` converts and judges.
        found: whether the document was looked up in the view; manifests of a cluster may be without uids.
    """
    home = namespace_of(document) or namespace
    stored = found or is_stored(document)
    match group_of(document), document.get("kind"):
        case "", "Pod":
            return (pod_question(document, f"pod {home}/{_name(document)}", home, view, settings, stored=stored),)
        case "resource.k8s.io", "ResourceClaim":
            return (_claim_question(document, home, view, settings, stored=stored),)
        case "resource.k8s.io", "ResourceClaimTemplate":
            return (_template_question(document, home, view, settings, stored=stored),)
    templates = templates_of(document, view, settings)
    label = f"{document.get('kind')} {home}/{_name(document)}"
    return tuple(
        pod_question(
            pod_of(found.template, document, home),
            label if len(templates) == 1 else f"{label}, {found.path}",
            home,
            view,
            settings,
            stored=False,
        )
        for found in templates
    )


def _name(document: Object) -> str:
    generated = lookup(document, ("metadata", "generateName"))
    return name_of(document) or (f"{generated}*" if isinstance(generated, str) and generated else "without a name")


def _claim_question(
    document: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, *, stored: bool
) -> Question:
    name = _name(document)
    label = f"ResourceClaim {namespace}/{name}"
    claim = NamedClaim(name, _at_home(claim_as_v1(document), namespace), label, shared=True)
    if not stored:
        claim = NamedClaim(name, {**claim.claim, "status": {}}, label, shared=True)
    return _question_of_claim(document, claim, label, view, settings, stored=stored)


def _template_question(
    document: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, *, stored: bool
) -> Question:
    name = _name(document)
    label = f"ResourceClaimTemplate {namespace}/{name}"
    spec: Any = lookup(document, ("spec", "spec"))
    made = {"apiVersion": document.get("apiVersion"), "metadata": {"name": name}, "spec": spec}
    claim = NamedClaim(name, _at_home(claim_as_v1(made), namespace), label)
    return _question_of_claim(document, claim, label, view, settings, stored=stored)


def _question_of_claim(
    document: Object, claim: NamedClaim, label: str, view: ClusterView, settings: GPUAdmissionPolicy, *, stored: bool
) -> Question:
    namespace = namespace_of(claim.claim)
    if not stored:
        request = Request(document, group=_RESOURCE, kind=document["kind"], namespace=namespace, name=name_of(document))
        refused = refusals(review(request, view, settings))
        if refused:
            return Question(label, namespace, obstacles=refused)
    if not isinstance(claim.claim.get("spec"), dict):
        broken = Obstacle(ObstacleKind.MALFORMED, f"{label} has no spec that requests devices")
        return Question(label, namespace, obstacles=(broken,))
    open_claims, allocated, obstacles = split_claims((claim,), "")
    obstacles = (*obstacles, *class_obstacles(open_claims, view))
    return Question(label, namespace, claims=open_claims, allocated=allocated, obstacles=obstacles)


def _at_home(claim: Object, namespace: str) -> Object:
    metadata = claim.get("metadata")
    own = metadata if isinstance(metadata, dict) else {}
    return {**claim, "metadata": {**own, "name": _name(claim), "namespace": namespace}}


"""With which the rules begin that tell where a pod's GPUs come from."""
_REFUSED_NOW = "unless these pods hold themselves what is used, they are refused until there is room"


def pod_question(
    document: Object, label: str, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, *, stored: bool
) -> Question:
    """The question of a pod; a pod that is not stored is reviewed first."""
    templates: tuple[Template, ...] = ()
    written: Object | None = None
    warnings: tuple[Finding, ...] = ()
    tolerated, conditions = _toleration_keys(document), _conditions(document)
    if not stored:
        written = created_pod(document, namespace, view)
        decision, warnings = _review_pod(written, namespace, view, settings)
        if refused := refusals(decision):
            return Question(label, namespace, obstacles=refused, warnings=warnings)
        document, templates = decision.object, decision.templates
    try:
        pod = Pod.read(document)
    except MalformedPodError as error:
        broken = [Obstacle(ObstacleKind.MALFORMED, f"{path} {sentence}") for path, sentence in error.problems]
        return Question(label, namespace, obstacles=tuple(broken))
    claims, missing = claims_of_pod(pod, namespace, templates, view)
    open_claims, allocated, blocking = split_claims(claims, str(lookup(document, ("metadata", "name")) or ""))
    return Question(
        label=label,
        namespace=namespace,
        pod=pod,
        written=written,
        claims=open_claims,
        allocated=allocated,
        resources={name: amount for name, amount in pod_amounts(pod.spec).items() if amount > 0},
        tolerations_added=tuple(key for key in _toleration_keys(document) if key not in tolerated),
        conditions_added=not templates and _conditions(document) != conditions,
        converted_to=templates[0].name if templates else "",
        node_name=pod.spec.get("nodeName") or "",
        obstacles=(*missing, *blocking, *class_obstacles(open_claims, view)),
        warnings=warnings,
    )


def _review_pod(
    pod: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy
) -> tuple[Decision, tuple[Finding, ...]]:
    """The decision of review on a pod, and the warnings to show.

    A pod of a workload is not refused for its namespace's quota, because the workload's own pods may hold the quota.
    """
    request = Request(pod, namespace=namespace)
    decision = review(request, view, settings)
    over = [finding for finding in decision.denials if finding.rule is FITS]
    if not over or controller_of(pod) is None:
        return decision, _warnings(decision)
    decision = review(request, _WithoutQuota(view), settings)
    told = (replace(each, severity=Severity.WARN, message=f"{_REFUSED_NOW}: {each.message}") for each in over)
    return decision, (*_warnings(decision), *told)


class _WithoutQuota(PassingView):
    """The cluster without GPUQuotas."""

    def get(self, kind: str, name: str, namespace: str = "") -> Object | Unknown | None:
        """One object; None when it certainly does not exist."""
        return None if kind == "GPUQuota" else super().get(kind, name, namespace)


def _toleration_keys(pod: Object) -> list[str]:
    """The keys of a pod's tolerations."""
    tolerations = lookup(pod, ("spec", "tolerations"))
    listed = tolerations if isinstance(tolerations, list) else []
    return [str(lookup(each, ("key",)) or "") for each in listed]


def _conditions(pod: Object) -> tuple[Any, Any]:
    """The node selector and affinity of a pod."""
    return lookup(pod, ("spec", "nodeSelector")), lookup(pod, ("spec", "affinity"))


def _warnings(decision: Decision) -> tuple[Finding, ...]:
    """Warnings about placement, and about wishes that no device satisfies if the pod is converted.

    The warning about more GPUs than a node has is left out, because the nodes show it.
    """
    return tuple(
        finding
        for finding in decision.findings
        if finding.severity is Severity.WARN
        and finding.rule is not MORE_THAN_A_NODE
        and (finding.rule.subject == "placement" or (finding.rule is UNSATISFIABLE and decision.templates))
    )


def refusals(decision: Decision) -> tuple[Obstacle, ...]:
    """An obstacle for each finding that refuses an object."""
    return tuple(
        Obstacle(
            ObstacleKind.REFUSED,
            f"{finding.path}: {finding.message}" if finding.path else finding.message,
            finding.remedy,
            finding.rule.id,
        )
        for finding in decision.denials
    )
