"""Defaults that give way: a default of the settings never refuses what a pod says itself.

A pod says what it wants in its own wishes, in the resources that it asks for, and in its node selector and affinity.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.nvidia.wishes import Wish
from policies.placement.wishes.asked_gpus import asked_gpus
from policies.placement.wishes.conflicts import node_conflict, resource_conflicts

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from policies.kubernetes.pods import Pod
    from policies.placement.wishes.asked_gpus import AskedGPU
    from policies.view import ClusterView

__all__ = ["without_overruled"]


def without_overruled(
    pod: Pod, view: ClusterView, texts: Mapping[str, str], defaults: Collection[str]
) -> dict[str, str]:
    """The words of a wish without the defaults that contradict what the pod says itself.

    Defaults that contradict each other stay, because only who wrote them knows which is meant.

    Args:
        pod: that is created.
        view: of the cluster.
        texts: all words that can be read, those first that are rather kept.
        defaults: those of them that are defaults.
    """
    wish, asked = Wish.of(texts), asked_gpus(pod, view)
    overruled = {
        word
        for words, _ in wish.contradictions()
        for word in words
        if word in defaults and not all(other in defaults for other in words)
    }
    overruled.update(found.word for found in resource_conflicts(asked, wish) if found.word in defaults)
    agreeing = {word: text for word, text in texts.items() if word not in overruled}
    return _without_selected_otherwise(pod, asked, view, agreeing, defaults)


def _without_selected_otherwise(
    pod: Pod, asked: tuple[AskedGPU, ...], view: ClusterView, texts: dict[str, str], defaults: Collection[str]
) -> dict[str, str]:
    """As many of the words, from the first on, as the pod's own node selector and affinity leave a node for."""
    if node_conflict(pod, asked, view, Wish.of(texts)) is None:
        return texts
    kept = {word: text for word, text in texts.items() if word not in defaults}
    for word, text in texts.items():
        tried = {**kept, word: text}
        if word in defaults and node_conflict(pod, asked, view, Wish.of(tried)) is None:
            kept = tried
    return {word: text for word, text in texts.items() if word in kept}
