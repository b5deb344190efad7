"""Questions of a document: one for each pod that it is, or makes, and one for a claim or template."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.explanation.claims_of_pods import is_stored, whereabouts
from policies.explanation.class_facts import class_obstacles
from policies.explanation.obstacles import Obstacle, ObstacleKind
from policies.explanation.pod_questions import pod_question, refusals
from policies.explanation.question import NamedClaim, Question
from policies.explanation.versions import claim_as_v1
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.workload_pods import pod_of
from policies.kubernetes.workloads import group_of
from policies.request import Request
from policies.review import review
from policies.workload_templates import templates_of

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["questions"]

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
    return _of_claim(document, claim, label, view, settings, stored=stored)


def _template_question(
    document: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy, *, stored: bool
) -> Question:
    name = _name(document)
    label = f"ResourceClaimTemplate {namespace}/{name}"
    spec: Any = lookup(document, ("spec", "spec"))
    made = {"apiVersion": document.get("apiVersion"), "metadata": {"name": name}, "spec": spec}
    claim = NamedClaim(name, _at_home(claim_as_v1(made), namespace), label)
    return _of_claim(document, claim, label, view, settings, stored=stored)


def _of_claim(
    document: Object, claim: NamedClaim, label: str, view: ClusterView, settings: GPUAdmissionPolicy, *, stored: bool
) -> Question:
    namespace = namespace_of(claim.claim)
    if not stored:
        request = Request(document, group=_RESOURCE, kind=document["kind"], namespace=namespace, name=name_of(document))
        refused = refusals(review(request, view, settings))
        if refused:
            return Question(label, namespace, obstacles=refused)
    if not isinstance(claim.claim.get("spec"), dict):
        broken = Obstacle(ObstacleKind.MALFORMED, f"{label} has no spec that asks for devices")
        return Question(label, namespace, obstacles=(broken,))
    open_claims, allocated, obstacles = whereabouts((claim,), "")
    obstacles = (*obstacles, *class_obstacles(open_claims, view))
    return Question(label, namespace, claims=open_claims, allocated=allocated, obstacles=obstacles)


def _at_home(claim: Object, namespace: str) -> Object:
    metadata = claim.get("metadata")
    own = metadata if isinstance(metadata, dict) else {}
    return {**claim, "metadata": {**own, "name": _name(claim), "namespace": namespace}}
