"""Questions: claims to allocate together, the pod that uses them, and obstacles.

A document has one question for each of its pod templates, or one for a claim or claim template.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from policies.admission import as_created, review, templates_of
from policies.conversion.exemptions import Mode, mode_of
from policies.conversion.surroundings import admitted_claims, existing_device
from policies.devices.native_quotas import QuotaUse
from policies.devices.pod_groups import with_shared_claims
from policies.devices.resource_claims import Claim
from policies.fleet.device_plugin import enough_on_a_node
from policies.kubernetes.names import MANAGED
from policies.kubernetes.objects import controller_of, generate_name_of, lookup, name_of, namespace_of
from policies.kubernetes.pod_templates import created_pod, pod_of
from policies.kubernetes.pods import MalformedPodError, Pod
from policies.kubernetes.quantities import pod_amounts
from policies.kubernetes.view import ChangedView
from policies.kubernetes.workloads import group_of
from policies.nvidia.mig import parse_resource
from policies.outcome.claims import (
    NamedClaim,
    Obstacle,
    ObstacleKind,
    claim_from_template,
    claim_with_spec,
    claims_of_pod,
    class_obstacles,
    is_stored,
    quota_obstacles,
    split_claims,
)
from policies.quota.limits.cluster_quota import without_quotas
from policies.quota.outcomes import within_quota
from policies.rules.decision import Severity
from policies.rules.request import Request

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Decision, Finding, Template
    from policies.rules.settings import GPUAdmissionPolicy


_RESOURCE = "resource.k8s.io"


@dataclass(frozen=True, slots=True)
class Question:
    """A pod, claim or template to explain."""

    label: str
    """For people: `pod team-a/train`, `Deployment team-a/web`, `ResourceClaim team-a/gpu`; for a workload with several
    pod templates, with the path of the template: `RayCluster team-a/ray, spec.headGroupSpec.template`."""
    namespace: str
    pod: Pod | None = None
    """The pod after review has converted and placed it; None for a claim or template."""
    written: Object | None = None
    """The pod before review; None if it is stored already, and for a claim or template."""
    claims: tuple[NamedClaim, ...] = ()
    """The claims to allocate together."""
    allocated: tuple[NamedClaim, ...] = ()
    """The claims that have their devices already; they only restrict the nodes."""
    resources: Mapping[str, int] = field(default_factory=dict)
    """The resources that the pod requests of a node, in billionths by name (`cpu`, `nvidia.com/gpu`), with init containers
    counted as Kubernetes does, and with one `pods`."""
    tolerations_added: tuple[str, ...] = ()
    """The keys of the tolerations that placement adds."""
    conditions_added: bool = False
    """True if placement adds to the pod's node selector or affinity."""
    converted_to: str = ""
    """The ResourceClaimTemplate of the converted pod; empty if the pod is not converted."""
    is_one_per_node: bool = False
    """True if a node runs at most one such pod, as of a DaemonSet."""
    node_name: str = ""
    """The node that the pod is bound to; empty if it is not bound."""
    quota_use: QuotaUse = QuotaUse.COUNTED
    """The use that ResourceQuotas count before the scheduler makes a claim for the pod's extended resources."""
    pods_wanted: int | None = None
    """The number of pods of a workload with one pod template; None if it is unknown."""
    obstacles: tuple[Obstacle, ...] = ()
    """Reasons why no node can fit."""
    warnings: tuple[Finding, ...] = ()
    """Warnings of review about conversion and placement."""

    @property
    def requests_gpu_resources(self) -> bool:
        """True if the pod requests GPUs as an extended resource."""
        return any(parse_resource(resource) is not None for resource in self.resources)

    def with_claim(self, number: int, claim: NamedClaim) -> Question:
        """The question with one of its claims replaced."""
        return replace(self, claims=(*self.claims[:number], claim, *self.claims[number + 1 :]))


def questions(
    document: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, *, found: bool = False
) -> tuple[Question, ...]:
    """The questions of a Pod, a workload with pod templates, a ResourceClaim or a ResourceClaimTemplate.

    A stored object (found in the cluster, or with a uid) is explained as it is. Any other object goes through `review`
    first, as it would when it is created. The pods of a workload count as not created yet.

    Args:
        document: The object; an object of another kind has no questions.
        namespace: The namespace of an object that names none.
        view: The cluster.
        settings: The administrator's settings.
        found: True if the document was found in the view; manifests of a cluster may be without uids.
    """
    home = namespace_of(document) or namespace
    stored = found or is_stored(document)
    match group_of(document), document.get("kind"):
        case "", "Pod":
            return (pod_question(document, f"pod {home}/{_name(document)}", home, view, settings, stored=stored),)
        case "resource.k8s.io", "ResourceClaim" | "ResourceClaimTemplate":
            return (_claim_question(document, home, view, settings, stored=stored),)
    templates = templates_of(document, view, settings)
    label = f"{document.get('kind')} {home}/{_name(document)}"
    found_questions = []
    for number, each in enumerate(templates):
        pod, seen = pod_of(each.template, document, home), view
        if each.shared_claims:
            pod, seen = with_shared_claims(pod, each.shared_claims, f"group {number}", home, view)
        named = label if len(templates) == 1 else f"{label}, {each.path}"
        question = pod_question(pod, named, home, seen, settings, stored=False)
        wanted = each.count.pods if len(templates) == 1 and each.count is not None else None
        found_questions.append(replace(question, pods_wanted=wanted))
    return tuple(found_questions)


def _name(document: Object) -> str:
    generated = generate_name_of(document)
    return name_of(document) or (f"{generated}*" if generated else "without a name")


def _claim_question(
    document: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, *, stored: bool
) -> Question:
    """The question of a ResourceClaim, or of the claim that is made from a ResourceClaimTemplate."""
    kind, name = document["kind"], _name(document)
    label = f"{kind} {namespace}/{name}"
    if not stored:
        request = Request(document, group=_RESOURCE, kind=kind, namespace=namespace, name=name_of(document))
        if refused := _refusals(review(request, view, settings)):
            return Question(label, namespace, obstacles=refused)
    if kind == "ResourceClaimTemplate":
        claim = claim_from_template(document, name, namespace)
    else:
        metadata = document.get("metadata")
        named = {**(metadata if isinstance(metadata, dict) else {}), "name": name, "namespace": namespace}
        claim = Claim({**document, "metadata": named, "status": document.get("status") if stored else None})
    found = claim_with_spec(NamedClaim(name, claim, label, shared=kind == "ResourceClaim"))
    if isinstance(found, Obstacle):
        return Question(label, namespace, obstacles=(found,))
    open_claims, allocated, obstacles = split_claims((found,), "")
    obstacles = (*obstacles, *class_obstacles(open_claims, view))
    return Question(label, namespace, claims=open_claims, allocated=allocated, obstacles=obstacles)


_REFUSED_NOW = "unless these pods themselves hold the quota, they are refused until there is room"


def pod_question(
    document: Object,
    label: str,
    namespace: str,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    *,
    stored: bool,
    quota_use: QuotaUse = QuotaUse.COUNTED,
) -> Question:
    """The question of a pod; a pod that is not stored is reviewed first.

    Args:
        document: The pod.
        label: The pod for people.
        namespace: Its namespace.
        view: The cluster.
        settings: The administrator's settings.
        stored: True if the pod exists.
        quota_use: What ResourceQuotas count already. For a pod of a workload that is not stored they count nothing, because
            the workload's own pods may be what they count.
    """
    templates: tuple[Template, ...] = ()
    written: Object | None = None
    warnings: tuple[Finding, ...] = ()
    tolerated, conditions = _toleration_keys(document), _conditions(document)
    if not stored:
        written = created_pod(document, namespace, view)
        decision, warnings = _review_pod(written, namespace, view, settings)
        if refused := _refusals(decision):
            return Question(label, namespace, obstacles=refused, warnings=warnings)
        document, templates = decision.object or written, decision.templates
    try:
        pod = Pod.read(document)
    except MalformedPodError as error:
        broken = [
            Obstacle(ObstacleKind.MALFORMED, f"{path} {message}; {remedy}") for path, message, remedy in error.problems
        ]
        return Question(label, namespace, obstacles=tuple(broken))
    claims, missing = claims_of_pod(pod, namespace, templates, view)
    open_claims, allocated, blocking = split_claims(claims, str(lookup(document, ("metadata", "name")) or ""))
    use = QuotaUse.NOTHING if not stored and controller_of(document) is not None else quota_use
    exceeded = quota_obstacles(document, claims, namespace, view, use, is_stored=stored)
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
        is_one_per_node=lookup(controller_of(document), ("kind",)) == "DaemonSet",
        node_name=pod.spec.get("nodeName") or "",
        quota_use=use,
        obstacles=(*missing, *blocking, *exceeded, *class_obstacles(open_claims, view)),
        warnings=tuple(each for each in warnings if each.rule is not admitted_claims.rule) if exceeded else warnings,
    )


def _review_pod(
    pod: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy
) -> tuple[Decision, tuple[Finding, ...]]:
    """The decision of review on a pod, and the warnings to show.

    A pod of a workload is not refused for its namespace's quota, because the workload's own pods may hold the quota.
    """
    request = Request(pod, namespace=namespace)
    decision = review(request, view, settings)
    over = [finding for finding in decision.denials if finding.rule is within_quota.rule]
    if not over or controller_of(pod) is None:
        return decision, _warnings(decision, namespace, view)
    # A refusal has neither patch nor templates, so the pod is reviewed once more as if the namespace had no quota.
    decision = review(request, ChangedView(view, without_quotas(namespace, view)), settings)
    exceeded = (replace(each, severity=Severity.WARN, message=f"{_REFUSED_NOW}: {each.message}") for each in over)
    return decision, (*_warnings(decision, namespace, view), *exceeded)


def question_warnings(question: Question, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[Finding, ...]:
    """The warnings of review about a question's pod; of a stored pod, those if it were created again."""
    if question.pod is None or question.written is not None or question.node_name:
        return question.warnings
    namespace = question.namespace
    # The pod itself may hold what the quota has left.
    without_quota = ChangedView(view, without_quotas(namespace, view))
    document = created_pod(as_created(question.pod.document), namespace, without_quota)
    return _warnings(review(Request(document, namespace=namespace), without_quota, settings), namespace, without_quota)


def _toleration_keys(pod: Object) -> list[str]:
    """The keys of a pod's tolerations."""
    tolerations = lookup(pod, ("spec", "tolerations"))
    listed = tolerations if isinstance(tolerations, list) else []
    return [str(lookup(each, ("key",)) or "") for each in listed]


def _conditions(pod: Object) -> tuple[Any, Any]:
    """The node selector and affinity of a pod."""
    return lookup(pod, ("spec", "nodeSelector")), lookup(pod, ("spec", "affinity"))


def _warnings(decision: Decision, namespace: str, view: ClusterView) -> tuple[Finding, ...]:
    """Warnings about placement, why a pod is not converted, and wishes that no device satisfies.

    The warning about more GPUs than a node has is left out, because the nodes show it. So are those that the author waives.
    In a namespace that only previews conversion, the reasons against it are left out.
    """
    written_by_us = lookup(decision.object, ("metadata", "labels", MANAGED)) == "true"
    is_left = mode_of(namespace, view) is Mode.ENABLED and not decision.templates and not written_by_us
    return tuple(
        finding
        for finding in decision.findings
        if finding.severity is Severity.WARN
        and not finding.waived
        and finding.rule is not enough_on_a_node.rule
        and (
            finding.rule.subject == "placement"
            or (finding.rule in (existing_device.rule, admitted_claims.rule) and decision.templates)
            or (finding.rule.subject == "conversion" and is_left)
        )
    )


def _refusals(decision: Decision) -> tuple[Obstacle, ...]:
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
