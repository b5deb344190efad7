"""Bounds of a wish moved to what the GPUs of the cluster have."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

from policies.nvidia.labels import Subject
from policies.nvidia.wishes import Wish, WishError
from policies.placement.wishes.asked_gpus import asked_gpus
from policies.placement.wishes.existing_gpus import existing_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.pods import Pod
    from policies.placement.wishes.asked_gpus import AskedGPU
    from policies.view import ClusterView

__all__ = ["nearest_bounds"]

_MOST = 2
"""Bounds that are tried for one word: the nearest to what is wished, and the next."""
_FACTS = {
    "min-memory": "memory",
    "max-memory": "memory",
    "min-compute-capability": "compute_capability",
    "min-driver": "driver",
    "min-cuda": "cuda",
}
"""The words that are bounds, and the attribute of `ExistingGPU` that each is about."""


def nearest_bounds(word: str, wish: Wish, pod: Pod, view: ClusterView) -> list[str]:
    """What some GPU has that a bound turns away, nearest first, as it is written in a wish; nothing for other words."""
    if word not in _FACTS:
        return []
    least, asked = word.startswith("min-"), _bound(word, wish)
    facts = {
        getattr(existing, _FACTS[word])
        for resource in asked_gpus(pod, view)
        for existing in existing_gpus(_by_claims_too(resource), view)
    }
    found = {_bound(word, has): has.words()[word] for has in _read(word, facts)}
    nearest = sorted((bound for bound in found if (bound < asked if least else bound > asked)), reverse=least)
    return [found[bound] for bound in nearest[:_MOST]]


def _by_claims_too(resource: AskedGPU) -> AskedGPU:
    """The same with the devices that conversion would claim for it, whether or not a DeviceClass hands it out."""
    if resource.devices is not None or resource.labels is None:
        return resource
    kind: Literal["gpu", "mig"] = "mig" if resource.labels.mig else "gpu"
    return replace(resource, devices=Subject(kind, resource.labels.profile))


def _bound(word: str, wish: Wish) -> Any:
    """A number, or a version as numbers."""
    return getattr(wish, word.replace("-", "_"))


def _read(word: str, facts: set[str]) -> Iterator[Wish]:
    """The wishes for what GPUs have; labels may hold what is no such thing."""
    for fact in sorted(facts):
        try:
            yield Wish.of({word: fact})
        except WishError:
            continue
