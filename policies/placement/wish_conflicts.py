"""Wishes that no node can meet: they contradict themselves, the request, or the conditions on nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.kubernetes.nodes import REQUIRED
from policies.kubernetes.objects import lookup
from policies.nvidia.identifiers import COMPUTE_LABELS, FAMILY_LABEL, GPU_RESOURCE
from policies.nvidia.products import fold_name, matching_texts
from policies.nvidia.wishes import Wish
from policies.placement.affinity import TooManyTermsError, contradiction
from policies.placement.wanted_nodes import requested_gpus, wanted_nodes
from policies.placement.wish_labels import DRIVER, RUNTIME, excludes_mig, existing_products
from policies.rules.checks import PODS, Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView
    from policies.nvidia.mig import MIGProfile
    from policies.placement.affinity import Contradiction
    from policies.placement.pod_wishes import PodWishes
    from policies.placement.wanted_nodes import RequestedGPU
    from policies.rules.decision import Finding


_MIG = re.compile(r"mig|[0-9]g\.[0-9]+gb")
"""Text that only names of MIG devices contain."""

_WORDS = {
    **dict.fromkeys(COMPUTE_LABELS, ("min-compute-capability",)),
    **dict.fromkeys(DRIVER, ("min-driver",)),
    **dict.fromkeys(RUNTIME, ("min-cuda",)),
    FAMILY_LABEL: ("family",),
}
_WORDS_OF_SUFFIX = {"memory": ("min-memory", "max-memory", "gpu-memory"), "sharing-strategy": ("sharing",)}
"""The words that are rendered as conditions on a label; all others are about products."""


@dataclass(frozen=True, slots=True)
class ResourceConflict:
    """A word of a wish that a requested resource never meets."""

    word: str
    sentence: str
    remedy: str


def wish_problems(pod: Pod, view: ClusterView, wishes: PodWishes) -> Iterator[Finding]:
    """Findings about a wish however GPUs are handed out: contradictions, and unknown products."""
    if not wishes.wish:
        return
    requested = requested_gpus(pod, view)
    found = tuple(consistent_wish(wishes, requested))
    yield from found or selectable_wish(pod, requested, view, wishes)
    yield from existing_products(wishes, view)


@PODS.rule(
    "GA402",
    "A wish must not contradict itself or the request of the pod",
    remedy="change one of the two",
    source="docs/placement.md",
)
def consistent_wish(wishes: PodWishes, requested: tuple[RequestedGPU, ...]) -> Iterator[Problem]:
    """No GPU has at least 80 GiB and at most 40 GiB of memory.

    What is handed out as nvidia.com/gpu.shared is never exclusive. Such a pod would be Pending for ever, whatever
    the cluster gets.
    """
    for words, text in wishes.wish.contradictions():
        yield wishes.problem(words[0], text)
    for each in resource_conflicts(requested, wishes.wish):
        yield wishes.problem(each.word, each.sentence, each.remedy)


@PODS.rule(
    "GA403",
    "A wish must not contradict the node selector and affinity of the pod",
    remedy="change the wish, or the pod's own condition on nodes",
    source="k8s.io/component-helpers/scheduling/corev1/nodeaffinity",
)
def selectable_wish(
    pod: Pod, requested: tuple[RequestedGPU, ...], view: ClusterView, wishes: PodWishes
) -> Iterator[Problem]:
    """A wish is added to the pod's own conditions on nodes and never replaces them.

    If no node can meet both, the pod would be Pending for ever, and only its author knows which of the two is
    meant.
    """
    if (conflict := node_conflict(pod, requested, view, wishes.wish)) is not None:
        wish = wishes.said(_word_of(conflict.requirement.key, wishes))
        message = f"the pod selects nodes by {conflict.condition}, and {wish} needs {conflict.requirement}"
        yield Problem(conflict.path, message)


def resource_conflicts(requested: tuple[RequestedGPU, ...], wish: Wish) -> Iterator[ResourceConflict]:
    """The words of a wish that the requested resources never meet."""
    for resource in (gpu.labels for gpu in requested if gpu.labels is not None):
        if resource.shared and wish.sharing == "exclusive":
            yield ResourceConflict(
                "sharing",
                f'is "exclusive", and the pod requests {resource.name}, which is shared',
                f'request {resource.name.removesuffix(".shared")}, or write "shared"',
            )
        if resource.mig and wish.gpu_memory is not None:
            yield ResourceConflict(
                "gpu-memory",
                f"is for a part of a GPU, and the pod requests {resource.name}",
                f"request {GPU_RESOURCE}, or remove the annotation",
            )
        profile, patterns = resource.profile, wish.products
        if not (profile and patterns):
            continue
        if excludes_mig(patterns, by_profile=profile):
            yield ResourceConflict(
                "product",
                f"excludes all MIG devices {profile}, and the pod requests {resource.name}",
                "request nvidia.com/gpu, or remove what excludes them",
            )
        elif patterns.includes and all(_names_another(fold_name(include), profile) for include in patterns.includes):
            yield ResourceConflict(
                "product",
                f"names MIG devices of other profiles only, and the pod requests {resource.name}",
                "request the profile that is wished, or leave the profile out of the wish",
            )


def node_conflict(pod: Pod, requested: tuple[RequestedGPU, ...], view: ClusterView, wish: Wish) -> Contradiction | None:
    """The condition in a pod's own node selector and affinity that excludes every node that it wishes.

    None also if these are too large to compare. Adding the wish to them then fails and reports it; a claim adds nothing
    to them.
    """
    if not pod.spec.get("nodeSelector") and not lookup(pod.spec, REQUIRED):
        return None
    # The names of the nodes that have such a GPU now say nothing of later ones.
    labelled = tuple(gpu for gpu in requested if gpu.labels is not None)
    try:
        return contradiction(pod, wanted_nodes(pod, labelled, view, wish).alternatives)
    except TooManyTermsError:
        return None


IMPOSSIBLE = frozenset({consistent_wish.rule, selectable_wish.rule})
"""The rules on wishes that can never be met."""


def _names_another(pattern: str, profile: MIGProfile) -> bool:
    """True if a pattern matches MIG devices, but none of a profile, on any GPU.

    It matches the profile if a part of it from `mig-1g.5gb` or `1g.5gb` on does.
    """
    label = fold_name(profile.label)
    named = _MIG.search(pattern)
    if named is None:
        return False
    return not any(matching_texts(pattern[start:], (label, f"mig-{label}")) for start in range(named.end()))


def _word_of(label: str, wishes: PodWishes) -> str:
    """The word of a wish that became a condition on a label."""
    meant = _WORDS.get(label) or _WORDS_OF_SUFFIX.get(label.rpartition(".")[2], ("product",))
    return next((word for word in meant if word in wishes.texts), next(iter(wishes.texts)))


def without_conflicting_defaults(
    pod: Pod, view: ClusterView, texts: Mapping[str, str], defaults: Collection[str]
) -> dict[str, str]:
    """The words of a wish without the defaults that contradict the pod's own wishes and conditions.

    Defaults that contradict each other stay, because only their author knows which one is meant.

    Args:
        pod: The new pod.
        view: The cluster.
        texts: All readable words, the most important first.
        defaults: The words that are defaults.
    """
    wish, requested = Wish.of(texts), requested_gpus(pod, view)
    overruled = {
        word
        for words, _ in wish.contradictions()
        for word in words
        if word in defaults and not all(other in defaults for other in words)
    }
    overruled.update(found.word for found in resource_conflicts(requested, wish) if found.word in defaults)
    agreeing = {word: text for word, text in texts.items() if word not in overruled}
    return _without_selected_otherwise(pod, requested, view, agreeing, defaults)


def _without_selected_otherwise(
    pod: Pod, requested: tuple[RequestedGPU, ...], view: ClusterView, texts: dict[str, str], defaults: Collection[str]
) -> dict[str, str]:
    """The words without the defaults that no node meets together with the pod's own conditions."""
    if node_conflict(pod, requested, view, Wish.of(texts)) is None:
        return texts
    kept = {word: text for word, text in texts.items() if word not in defaults}
    for word, text in texts.items():
        tried = {**kept, word: text}
        if word in defaults and node_conflict(pod, requested, view, Wish.of(tried)) is None:
            kept = tried
    return {word: text for word, text in texts.items() if word in kept}
