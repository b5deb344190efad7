"""Wishes that can never be kept: they contradict themselves, what the pod asks for, or what it says of its nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.nodes import REQUIRED
from policies.kubernetes.paths import lookup
from policies.placement.affinity import TooManyTermsError, contradiction
from policies.placement.rules import CONFLICTING, CONTRADICTORY
from policies.placement.wishes.node_labels import COMPUTE, DRIVER, FAMILY, RUNTIME, excludes_mig
from policies.placement.wishes.wanted_nodes import wanted_nodes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.kubernetes.pods import Pod
    from policies.placement.wishes.asked_gpus import AskedGPU
    from policies.placement.wishes.wished import Wished
    from policies.view import ClusterView

__all__ = ["conflicts"]

_WORDS = {
    **dict.fromkeys(COMPUTE, ("min-compute-capability",)),
    **dict.fromkeys(DRIVER, ("min-driver",)),
    **dict.fromkeys(RUNTIME, ("min-cuda",)),
    FAMILY: ("family",),
}
_WORDS_OF_SUFFIX = {"memory": ("min-memory", "max-memory"), "sharing-strategy": ("sharing",)}
"""Which words are rendered as conditions on a label; all others are about products."""


def conflicts(pod: Pod, asked: tuple[AskedGPU, ...], view: ClusterView, wishes: Wished) -> Iterator[Finding]:
    """Everything that makes a wish impossible whatever the cluster gets."""
    found = [*_with_itself(wishes), *_with_resources(asked, wishes)]
    yield from found
    if not found:
        yield from _with_nodes(pod, asked, view, wishes)


def _with_itself(wishes: Wished) -> Iterator[Finding]:
    for words, sentence in wishes.wish.contradictions():
        yield wishes.finding(CONTRADICTORY, words[0], sentence)


def _with_resources(asked: tuple[AskedGPU, ...], wishes: Wished) -> Iterator[Finding]:
    wish = wishes.wish
    for resource in (gpu.labels for gpu in asked if gpu.labels is not None):
        if resource.shared and wish.sharing == "exclusive":
            yield wishes.finding(
                CONTRADICTORY,
                "sharing",
                f'is "exclusive", and the pod asks for {resource.name}, which is shared',
                f'ask for {resource.name.removesuffix(".shared")}, or write "shared"',
            )
        if resource.profile and wish.products and excludes_mig(wish.products, by_profile=resource.profile):
            yield wishes.finding(
                CONTRADICTORY,
                "product",
                f"excludes all MIG devices, and the pod asks for {resource.name}",
                "ask for nvidia.com/gpu, or remove what excludes them",
            )


def _with_nodes(pod: Pod, asked: tuple[AskedGPU, ...], view: ClusterView, wishes: Wished) -> Iterator[Finding]:
    if not pod.spec.get("nodeSelector") and not lookup(pod.spec, REQUIRED):
        return
    try:
        conflict = contradiction(pod, wanted_nodes(pod, asked, view, wishes.wish).alternatives)
    except TooManyTermsError:
        return
    if conflict is not None:
        wish = wishes.said(_word_of(conflict.requirement.key, wishes))
        message = f"selects nodes by {conflict.condition}, and {wish} needs {conflict.requirement}"
        yield CONFLICTING.finding(conflict.path, message)


def _word_of(label: str, wishes: Wished) -> str:
    """The word of a wish that became a condition on a label."""
    meant = _WORDS.get(label) or _WORDS_OF_SUFFIX.get(label.rpartition(".")[2], ("product",))
    return next((word for word in meant if word in wishes.texts), next(iter(wishes.texts)))
