"""Remarks: assumptions of an explanation, and what goes wrong after scheduling."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.conversion.surroundings import OLD_KUBELET, TWICE
from policies.explanation.report import Change
from policies.fleet.dra_nodes import nodes_with_both, old_kubelets
from policies.kubernetes.paths import lookup
from policies.kubernetes.printable import printable
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.phrases import shorten
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.explanation.report import Suggestion
    from policies.kubernetes.objects import Object
    from policies.outcome import Audience, PlacementOutcome, Question
    from policies.view import ClusterView

__all__ = ["preemption_remarks", "remarks"]

_MOST_NAMED = 3


def remarks(outcome: PlacementOutcome, view: ClusterView) -> Iterator[str]:
    """Assumptions about unknown facts, and problems of nodes."""
    question = outcome.question
    if not outcome.fit_now and (not outcome.nodes or outcome.missing):
        yield "nodes that do not exist yet, such as those that an autoscaler adds, are not judged"
    yield from (each.sentence for each in outcome.assumptions)
    if question.pod is None:
        yield "a claim alone has no tolerations and no node selector, so taints and labels of nodes are ignored"
    nodes = view.list("Node") if question.tolerations_added else ()
    tainted = {key for node in (() if nodes is UNKNOWN else nodes) for key in _tainted_with(node)}
    for key in question.tolerations_added:
        if key in tainted:
            yield f"this counts the toleration for {shorten(key)} that placement adds to the pod"
    if question.conditions_added:
        yield "this counts the conditions on nodes that placement adds to the pod; gpu-admission review shows them"
    if question.pod is not None and question.pod.spec.get("schedulerName") not in (None, "", "default-scheduler"):
        name = question.pod.spec["schedulerName"]
        yield f"the pod is for scheduler {name}; this is what the default scheduler would do"
    yield from _of_nodes(question, view, outcome.audience)
    if isinstance(view.get("Namespace", question.namespace), dict) or question.pod is None or question.converted_to:
        return
    if question.resources.keys() & {GPU_RESOURCE}:
        yield f"namespace {question.namespace} is unknown, so the pod counts as not converted"


def preemption_remarks(suggestions: Iterable[Suggestion]) -> Iterator[str]:
    """A remark on suggestions to end pods."""
    if any(each.change is Change.PREEMPTION for each in suggestions):
        yield "the scheduler does not end pods of lower priority by itself to free devices of claims"


def _of_nodes(question: Question, view: ClusterView, audience: Audience) -> Iterator[str]:
    """Problems of nodes after scheduling."""
    warned = {warning.rule for warning in question.warnings}
    has_gpus = question.claims or question.requests_gpu_resources
    both = nodes_with_both(view) if has_gpus and TWICE not in warned else ()
    if both:
        yield (
            f"{audience.nodes(both, _MOST_NAMED)} {'hands' if len(both) == 1 else 'hand'} out the same GPUs by device plugin and by "
            "DRA, so a pod can get a GPU there that another pod has"
        )
    kubelets = old_kubelets(view) if question.claims and OLD_KUBELET not in warned else ()
    if kubelets:
        yield (
            f"{audience.nodes([each.node for each in kubelets], _MOST_NAMED)} {'has a kubelet' if len(kubelets) == 1 else 'have kubelets'} "
            f"before 1.34 ({printable(kubelets[0].version)}), which cannot read claims of resource.k8s.io/v1, so the pod would "
            "not start there"
        )


def _tainted_with(node: Object) -> Iterator[str]:
    taints = lookup(node, ("spec", "taints"))
    for taint in taints if isinstance(taints, list) else []:
        yield str(lookup(taint, ("key",)) or "")
