"""Applies a wish: renders it to conditions on nodes, and reports why no node meets it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.kubernetes.phrases import format_count, format_list, format_ranges
from policies.kubernetes.selectors import ALWAYS, both
from policies.nvidia.labels import Subject
from policies.nvidia.predicates import TRUE
from policies.nvidia.wish_predicates import device_predicate
from policies.placement.affinity import TooManyTermsError, require, without_requirements
from policies.placement.sharing import unshared_conditions, unshared_nodes
from policies.placement.wishes.annotations import DAEMON_SET
from policies.placement.wishes.conflicts import IMPOSSIBLE, wish_problems
from policies.placement.wishes.pod_wishes import NO_EFFECT
from policies.placement.wishes.unmet_wishes import unmet_wishes
from policies.placement.wishes.wanted_nodes import MOST_NAMES, requested_gpus, wanted_nodes
from policies.rules.decision import Severity
from policies.rules.registry import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.placement.wishes.pod_wishes import PodWishes
    from policies.placement.wishes.wanted_nodes import RequestedGPU, WantedNodes
    from policies.rules.decision import Finding
    from policies.rules.patch import Editor
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["apply_wish", "without_conditions"]

_SIMPLIFY = "simplify the pod's own node selector and affinity"


def apply_wish(
    pod: Pod, view: ClusterView, settings: GPUAdmissionPolicy, wishes: PodWishes, edits: Editor
) -> Iterator[Finding]:
    """Restrict a pod to nodes that meet its wish, and to unshared GPUs if the settings require it.

    A pod with an impossible wish is not changed, and neither is a pod of a DaemonSet, which was made for one node.
    """
    requested = requested_gpus(pod, view)
    if not requested:
        yield from wishes.without_effect().findings
        yield from _without_gpu(pod, wishes)
        return
    yield from wishes.findings
    problems = tuple(wish_problems(pod, view, wishes))
    yield from problems
    if pod.controller_kind != DAEMON_SET and not any(found.rule in IMPOSSIBLE for found in problems):
        yield from _add_conditions(pod, requested, view, settings, wishes, edits)


def without_conditions(pod: Pod, view: ClusterView, settings: GPUAdmissionPolicy, wishes: PodWishes) -> Pod:
    """The pod without the conditions on nodes that `apply_wish` writes; the pod itself if it has none.

    Equal conditions that the pod's author wrote are removed as well.
    """
    return _without(pod, wanted_nodes(pod, requested_gpus(pod, view), view, wishes.wish), settings, wishes)


def _without(pod: Pod, wanted: WantedNodes, settings: GPUAdmissionPolicy, wishes: PodWishes) -> Pod:
    unshared = tuple(unshared_conditions(pod, wishes.wish, settings).values())
    spec = without_requirements(pod.spec, both(wanted.alternatives, (unshared,)))
    return pod if spec == pod.spec else replace(pod, document={**pod.document, "spec": spec})


def _add_conditions(
    pod: Pod,
    requested: tuple[RequestedGPU, ...],
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    wishes: PodWishes,
    edits: Editor,
) -> Iterator[Finding]:
    wanted = wanted_nodes(pod, requested, view, wishes.wish)
    own = _without(pod, wanted, settings, wishes)
    unshared, shared = unshared_nodes(own, wishes.wish, view, settings, wanted.alternatives)
    try:
        require(both(wanted.alternatives, unshared), edits)
    except TooManyTermsError as error:
        yield _not_required(error, wanted, wishes)
        return
    yield from unmet_wishes(requested, view, wishes, settings)
    yield from _untold(wanted, wishes)
    yield from _by_name(wanted, wishes)
    yield from shared


def _not_required(error: TooManyTermsError, wanted: WantedNodes, wishes: PodWishes) -> Finding:
    """A denial for a pod with a wish, which would run on any node; a warning for a pod without one."""
    if wanted.alternatives == ALWAYS:
        text = f"{error}, so the pod is not kept off shared GPUs, although spec.placement.avoidSharedGPUs is true"
        return NO_EFFECT.finding(error.path, text, _SIMPLIFY)
    wish = format_list([wishes.said(word) for word in wishes.texts])
    return NO_EFFECT.finding(error.path, f"{error}, so {wish} cannot be kept", _SIMPLIFY, severity=Severity.DENY)


def _without_gpu(pod: Pod, wishes: PodWishes) -> Iterator[Finding]:
    """A finding about the pod's own wishes, if it requests no GPU by a resource."""
    if not wishes.own:
        return
    if not pod.resource_claims:
        yield wishes.no_effect("the pod requests no GPU")
        return
    predicate = device_predicate(wishes.wish, Subject("gpu"))
    remedy = (
        f"write into the claim's request selectors: [{{cel: {{expression: '{predicate.cel()}'}}}}]"
        if predicate != TRUE
        else "remove the annotation, and write the condition into the claim"
    )
    yield wishes.no_effect("the pod brings its own claims", remedy)


def _untold(wanted: WantedNodes, wishes: PodWishes) -> Iterator[Finding]:
    for gpu in wanted.untold:
        text = f"neither labels of nodes nor ResourceSlices show which nodes have such a GPU for {gpu.name}"
        yield wishes.no_effect(text, "request it by a claim with such a selector")


BY_NAME = rule(
    "GA408",
    "A wish must be met by labels, not by the names of nodes",
    default=Severity.WARN,
    why="""
    Where GPUs are handed out by DRA, no labels of nodes describe them. Until such a pod requests by a claim, its wish can
    only be met by naming the nodes that have such GPUs now. A node that is added later will not be used.""",
    remedy="label the namespace gpu-admission.io/dra: enabled, so that the pod requests by a claim",
    source="github.com/NVIDIA/gpu-operator GPUCluster, which deploys no GPU Feature Discovery",
)


def _by_name(wanted: WantedNodes, wishes: PodWishes) -> Iterator[Finding]:
    names = wanted.names
    if names:
        limit = f", of at most {MOST_NAMES:,}" if len(names) == MOST_NAMES else ""
        word = next(iter(wishes.texts))
        yield wishes.finding(
            BY_NAME,
            word,
            f"no label describes the GPUs of {format_count(len(names), 'node')}{limit}, so the pod is tied to the names of those "
            f"that have such a GPU now: {format_ranges(names)}",
        )
