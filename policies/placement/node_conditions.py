"""Applies a wish: renders it to conditions on nodes, and reports which GPUs exist if no node meets it.

The pod's other conditions on nodes are not considered for unmet wishes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.devices.published_devices import gpu_groups
from policies.fleet.gpu_nodes import gpu_nodes
from policies.kubernetes.names import DRA_LABEL, format_count, format_ranges, printable
from policies.kubernetes.objects import lookup, namespace_of
from policies.kubernetes.selectors import ALWAYS, both
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.labels import Subject, device_predicate
from policies.nvidia.mig import parse_resource
from policies.nvidia.predicates import TRUE
from policies.nvidia.wish_words import as_sold
from policies.nvidia.wishes import Wish
from policies.placement.affinity import TooManyTermsError, require, without_requirements
from policies.placement.pod_wishes import effective_wishes
from policies.placement.resource_requests import unshared_conditions, unshared_nodes
from policies.placement.wanted_nodes import (
    MOST_NAMES,
    ExistingGPU,
    existing_gpus,
    is_as_wished,
    requested_gpus,
    wanted_nodes,
)
from policies.placement.wish_annotations import DAEMON_SET
from policies.placement.wish_conflicts import IMPOSSIBLE, wish_problems
from policies.placement.wish_labels import alternatives, seen_products
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.nvidia.wish_words import ProductPatterns
    from policies.placement.pod_wishes import PodWishes
    from policies.placement.wanted_nodes import RequestedGPU, WantedNodes
    from policies.rules.decision import Finding
    from policies.rules.patch import Editor
    from policies.rules.settings import GPUAdmissionPolicy


_ADD_ONE = "add a node with such a GPU, or wait for an autoscaler to add one"
_UNNOTICED = (
    "request a GPU that exists; the pod will not notice a node that comes later: apply it again then, or label the "
    "namespace gpu-admission.io/dra: enabled"
)
"""The remedy if no label describes the GPUs: the pod is tied to names of nodes, or to labels that no node gets."""


@PODS.rule(
    "GA404",
    "A node must have a GPU that meets the wish",
    default=Severity.WARN,
    setting="placement.unsatisfiable",
    remedy="request a GPU that exists, or wait for such a node",
    source="labels of GPU Feature Discovery, or ResourceSlices where nodes have none",
)
def met_wishes(
    requested: tuple[RequestedGPU, ...], view: ClusterView, wishes: PodWishes, settings: GPUAdmissionPolicy
) -> Iterator[Problem]:
    """No node has such a GPU now, so the pod will be Pending.

    That may change: an autoscaled cluster has no GPU node until the first pod requests one. The wish may also be
    for a GPU that this cluster will never have.
    """
    # Only the first word is reported that no node meets together with the words before it. Another rule reports that no
    # node offers the resource at all.
    nodes = gpu_nodes(view)
    if nodes is UNKNOWN or not wishes.wish:
        return
    groups = gpu_groups(view)
    severity = Severity(settings.placement.unsatisfiable)
    reported: set[str] = set()
    for gpu in requested:
        if groups is UNKNOWN and gpu.devices is not None:
            continue
        if not nodes.nodes and (groups is UNKNOWN or not groups):
            missed: _Missed | None = (next(iter(wishes.texts)), "no node of the cluster has a GPU", _ADD_ONE)
        else:
            missed = _unmet_word(gpu, view, wishes)
        if missed and missed[1] not in reported:
            reported.add(missed[1])
            yield wishes.problem(*missed, severity=severity)


_Missed = tuple[str, str, str | None]
"""A word that no GPU meets, a message, and a remedy."""


def _unmet_word(gpu: RequestedGPU, view: ClusterView, wishes: PodWishes) -> _Missed | None:
    left = existing = existing_gpus(gpu, view)
    for word, text in wishes.wish.words().items() if existing else ():
        part = Wish.of({word: text})
        meeting = _matching_gpus(part, gpu, left, view)
        if not meeting:
            written = wishes.texts[word].strip()
            sold = as_sold(written) if word in ("min-memory", "gpu-memory") else None
            if sold and _matching_gpus(Wish.of({word: sold}), gpu, left, view):
                remedy: str | None = f'write "{sold}"'
            else:
                remedy = _UNNOTICED if all(each.group is not None for each in existing) else None
            return word, unmet_text(word, part, written, left), remedy
        left = meeting
    return None


def _matching_gpus(wish: Wish, gpu: RequestedGPU, existing: list[ExistingGPU], view: ClusterView) -> list[ExistingGPU]:
    by_label = alternatives(wish, gpu.labels, seen_products(view)) if gpu.labels else ()
    return [
        each
        for each in existing
        if (
            is_as_wished(each.group, wish, gpu)
            if each.group is not None
            else any(all(item.holds(each.labels) for item in branch) for branch in by_label)
        )
    ]


_MOST = 5
_UNNAMED = "a GPU without a name"
_NUMBER = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class _Phrases:
    """The phrases of messages about one word of a wish."""

    fact: str
    """The attribute of `ExistingGPU` that it is about."""
    is_like: str
    """The attribute of a GPU, with `{}` for its value."""
    next_is: str
    """The same of further GPUs in the same sentence."""
    wanted: str
    """The wish, with `{}` for its text."""
    values: tuple[tuple[str, str], ...] = ()
    """The names of values that are not numbers."""


_SHARING = (
    ("none", "exclusive"),
    ("mps", "shared by MPS"),
    ("time-slicing", "time-sliced"),
    ("claims", "shared by claims"),
)
_WORDS = {
    "min-memory": _Phrases("memory", "has {} of memory", "has {}", "at least {} is wished"),
    "max-memory": _Phrases("memory", "has {} of memory", "has {}", "at most {} is wished"),
    "gpu-memory": _Phrases("memory", "has {} of memory", "has {}", "a part of {} is wished"),
    "min-compute-capability": _Phrases(
        "compute_capability", "has compute capability {}", "has {}", "at least {} is wished"
    ),
    "family": _Phrases("family", "is of the family {}", "is {}", "{} is wished"),
    "min-driver": _Phrases("driver", "has driver {}", "has {}", "at least {} is wished"),
    "min-cuda": _Phrases("cuda", "supports CUDA {}", "supports {}", "at least {} is wished"),
    "sharing": _Phrases("sharing", "is {}", "is {}", "{} GPUs are wished", _SHARING),
}


def unmet_text(word: str, wish: Wish, written: str, existing: Sequence[ExistingGPU]) -> str:
    """Text on a word that no GPU meets: `12 nodes have NVIDIA-L4, 4 have Tesla-T4; none has H100*`.

    Args:
        word: The word.
        wish: The wish with this word only.
        written: The value of the word as its author wrote it.
        existing: The GPUs of the cluster, at least one kind.
    """
    nodes: Counter[str] = Counter()
    for each in existing:
        nodes[_name(each)] += each.nodes
    most_first = sorted(nodes.items(), key=lambda item: (-item[1], item[0]))
    if wish.products is not None:
        parts = [
            f"{format_count(count, 'node') if place == 0 else format(count, ',')} {'has' if count == 1 else 'have'} {product}"
            for place, (product, count) in enumerate(most_first)
        ]
        wanted = _pattern_text(wish.products) if wish.products.excludes else _any_of(written)
        return f"{_first(parts)}; none has {wanted}"
    phrases = _WORDS[word]
    facts: defaultdict[str, set[str]] = defaultdict(set)
    for each in existing:
        facts[_name(each)].add(getattr(each, phrases.fact))
    parts = [
        f"{product} on {format_count(count, 'node')} {_fact(facts[product], phrases, phrases.next_is if place else phrases.is_like)}"
        for place, (product, count) in enumerate(most_first)
    ]
    return f"{_first(parts)}; {phrases.wanted.format(_any_of(written))}"


def _any_of(written: str) -> str:
    return printable(" or ".join(part.strip() for part in written.split(",")))


def _pattern_text(patterns: ProductPatterns) -> str:
    excluded = " or ".join(patterns.excludes)
    if not patterns.includes:
        return f"anything but {excluded}"
    return " or ".join(patterns.includes) + (f" without {excluded}" if excluded else "")


def _fact(values: set[str], phrases: _Phrases, phrase: str) -> str:
    known = sorted(filter(None, values), key=lambda text: ([int(number) for number in _NUMBER.findall(text)], text))
    if not known:
        return "has no label for it"
    if phrases.values:
        return phrase.format(" or ".join(name for value, name in phrases.values if value in known))
    return phrase.format(printable(known[0] if len(known) == 1 else f"{known[0]} to {known[-1]}"))


def _name(existing: ExistingGPU) -> str:
    return printable(existing.product) or _UNNAMED


def _first(products: list[str]) -> str:
    """The first products, and the number of the others."""
    more = len(products) - _MOST
    return ", ".join(products[:_MOST]) + (f" and {more} more product{'s' * (more > 1)}" if more > 0 else "")


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
    # Only a claim requests network devices.
    texts = {word: text for word, text in wishes.texts.items() if word != "nic"}
    wishes = replace(wishes, wish=replace(wishes.wish, nic=None), texts=texts)
    problems = tuple(wish_problems(pod, view, wishes))
    yield from problems
    if pod.controller_kind != DAEMON_SET and not any(found.rule in IMPOSSIBLE for found in problems):
        yield from _add_conditions(pod, requested, view, settings, wishes, edits)


def unclaimed_nics(pod: Pod, namespace: str, view: ClusterView, wishes: PodWishes) -> Iterator[Finding]:
    """A finding about a wish for network devices in a namespace that does not convert its pods.

    In other namespaces conversion says why it does not convert a pod.
    """
    owner = view.get("Namespace", namespace)
    if wishes.wish.nic is None or owner is UNKNOWN or lookup(owner, ("metadata", "labels", DRA_LABEL)) == "enabled":
        return
    if requested_gpus(pod, view):
        only = replace(wishes, texts={"nic": wishes.texts["nic"]})
        text = "only a claim requests network devices, and the pod is not converted"
        yield from effective_wishes(only, text, f"label the namespace {DRA_LABEL}: enabled, or remove the annotation")


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
        yield from effective_wishes(wishes, error, is_for_wish=wanted.alternatives != ALWAYS)
        return
    yield from met_wishes(requested, view, wishes, settings)
    for gpu in wanted.untold:
        text = f"neither labels of nodes nor ResourceSlices show which nodes have such a GPU for {gpu.name}"
        yield from effective_wishes(wishes, text, "request it by a claim with such a selector")
    yield from met_by_labels(wanted, wishes)
    yield from claimed_parts(pod, requested, view, wishes)
    yield from shared


@PODS.rule(
    "GA408",
    "A wish must be met by labels, not by the names of nodes",
    default=Severity.WARN,
    remedy="label the namespace gpu-admission.io/dra: enabled, so that the pod requests by a claim",
    source="github.com/NVIDIA/gpu-operator internal/state/manager.go newGPUClusterStates, which has no GPU Feature Discovery",
)
def met_by_labels(wanted: WantedNodes, wishes: PodWishes) -> Iterator[Problem]:
    """Where GPUs are handed out by DRA, no labels of nodes describe them.

    Until such a pod requests by a claim, its wish can only be met by naming the nodes that have such GPUs now. A
    node that is added later will not be used.
    """
    if names := wanted.names:
        limit = f", of at most {MOST_NAMES:,}" if len(names) == MOST_NAMES else ""
        text = (
            f"no label describes the GPUs of {format_count(len(names), 'node')}{limit}, so the pod is tied to the names of "
            f"those that have such a GPU now: {format_ranges(names)}"
        )
        yield wishes.problem(next(iter(wishes.texts)), text)


@PODS.rule(
    "GA410",
    "A part of a GPU must be wished for where pods are converted to claims",
    default=Severity.WARN,
    remedy="let the pod request by a claim, or request a MIG device",
    source="docs/placement.md",
)
def claimed_parts(
    pod: Pod, requested: tuple[RequestedGPU, ...], view: ClusterView, wishes: PodWishes
) -> Iterator[Problem]:
    """Only a claim can request a part of a GPU by its memory.

    A device plugin hands out devices by number. A pod that is not converted runs where GPUs have the memory, and gets
    a device as the node hands it out: a whole GPU, or a share without memory of its own.
    """
    part = wishes.wish.gpu_memory
    name = next((gpu.name for gpu in requested if gpu.labels is None or not gpu.labels.mig), None)
    if part is None or name is None:
        return
    namespace = view.get("Namespace", namespace_of(pod.document))
    remedy = "let the pod request by a claim (label gpu-admission.io/dra: enabled on the namespace)"
    if lookup(namespace, ("metadata", "labels", DRA_LABEL)) == "enabled":
        remedy = "change what keeps the pod from being converted"
    if (mig := _smallest_mig_resource(part, view)) is not None:
        remedy = f"remove the annotation and request {mig}, or {remedy}"
    text = f"the pod is not converted, so it gets {name} as the node hands it out, and no part of {part}Mi"
    yield wishes.problem("gpu-memory", text, remedy)


def _smallest_mig_resource(memory: int, view: ClusterView) -> str | None:
    """The resource of the smallest MIG devices with so many MiB that nodes hand out."""
    nodes = gpu_nodes(view)
    sizes: set[tuple[int, str]] = set()
    for traits in () if nodes is UNKNOWN else nodes.traits:
        for name in traits.offers:
            parsed = parse_resource(name)
            if parsed is not None and parsed.mig and not parsed.shared:
                size = traits.label_values.get(f"{name}.memory", "")
                if size.isdecimal() and int(size) >= memory:
                    sizes.add((int(size), name))
    return min(sizes)[1] if sizes else None


def _without_gpu(pod: Pod, wishes: PodWishes) -> Iterator[Finding]:
    """A finding about the pod's own wishes, if it requests no GPU by a resource."""
    if not wishes.own:
        return
    if not pod.resource_claims:
        remedy = f"request {GPU_RESOURCE}: 1, of which it gets a part" if wishes.wish.gpu_memory is not None else None
        yield from effective_wishes(wishes, "the pod requests no GPU", remedy)
        return
    predicate = device_predicate(wishes.wish, Subject("gpu"))
    remedy = (
        f"write into the claim's request selectors: [{{cel: {{expression: '{predicate.cel()}'}}}}]"
        if predicate != TRUE
        else "remove the annotation, and write the condition into the claim"
    )
    yield from effective_wishes(wishes, "the pod brings its own claims", remedy)
