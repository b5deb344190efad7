"""Changes of a pod's wishes, one word at a time: another bound, or without the word."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from policies.kubernetes.pods import Pod
from policies.metadata_keys import PREFIX
from policies.nvidia.labels import Subject
from policies.nvidia.wishes import Wish, WishError
from policies.outcome import pod_question
from policies.placement.wishes import read_wishes
from policies.placement.wishes.existing_gpus import existing_gpus
from policies.placement.wishes.requested_gpus import requested_gpus
from policies.work import check_cancelled

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object
    from policies.outcome import Question
    from policies.placement.wishes import PodWishes
    from policies.placement.wishes.requested_gpus import RequestedGPU
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["WishChange", "nearest_bounds", "wish_changes"]


@dataclass(frozen=True, slots=True)
class WishChange:
    """The question with one word of the pod's wishes changed."""

    word: str
    sentence: str
    """What to change, an imperative without a full stop: `drop the wish gpu-admission.io/product: H100*`."""
    question: Question
    """The question of the changed pod after review."""


@dataclass(frozen=True, slots=True)
class _Edit:
    """The pod with one word changed, or the settings without a default."""

    sentence: str
    written: Object
    settings: GPUAdmissionPolicy


def wish_changes(question: Question, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[WishChange]:
    """Possible changes of each word that has an effect; for one word, the smallest change first.

    Defaults of the settings are words, too. If a default replaces a dropped word, the sentence says so.
    """
    if question.written is None or question.pod is None:
        return
    pod = Pod.read(question.written)
    wishes = read_wishes(pod, question.namespace, view, settings)
    for word in wishes.texts:
        check_cancelled()
        for edit in _edits(word, pod, question.namespace, wishes, view, settings):
            check_cancelled()
            then = pod_question(edit.written, question.label, question.namespace, view, edit.settings, stored=False)
            if then.pod is not None and not then.obstacles and then.pod.spec != question.pod.spec:
                yield WishChange(word, edit.sentence, then)


def _edits(
    word: str, pod: Pod, namespace: str, wishes: PodWishes, view: ClusterView, settings: GPUAdmissionPolicy
) -> Iterator[_Edit]:
    said = wishes.said(word)
    for bound in nearest_bounds(word, wishes.wish, pod, view):
        moved = _with_annotations(pod.document, {**pod.annotations, PREFIX + word: bound})
        yield _Edit(
            f"write {PREFIX}{word}: {bound} instead of {said.removeprefix(f'{PREFIX}{word}: ')}", moved, settings
        )
    if word in wishes.defaults:
        yield _Edit(f"drop the wish {said}", pod.document, _without_default(settings, word))
        return
    left = {key: text for key, text in pod.annotations.items() if key != PREFIX + word}
    dropped = _with_annotations(pod.document, left)
    arrived = _new_defaults(wishes, read_wishes(Pod.read(dropped), namespace, view, settings))
    yield _Edit(f"drop the wish {said}{arrived}", dropped, settings)


def _with_annotations(pod: Object, annotations: dict[str, str]) -> Object:
    return {**pod, "metadata": {**(pod.get("metadata") or {}), "annotations": annotations}}


def _without_default(settings: GPUAdmissionPolicy, word: str) -> GPUAdmissionPolicy:
    defaults = tuple(
        replace(default, wish={each: text for each, text in default.wish.items() if each != word})
        for default in settings.placement.wishes
    )
    return replace(settings, placement=replace(settings.placement, wishes=defaults))


def _new_defaults(before: PodWishes, after: PodWishes) -> str:
    """The defaults that replace a dropped word, in words."""
    arrived = [after.said(word) for word in after.texts if word in after.defaults - before.defaults]
    return f", so that {' and '.join(arrived)} {'hold' if len(arrived) > 1 else 'holds'}" if arrived else ""


_MOST = 2
"""Bounds that are tried for one word, the nearest first."""
_FACTS = {
    "min-memory": "memory",
    "max-memory": "memory",
    "min-compute-capability": "compute_capability",
    "min-driver": "driver",
    "min-cuda": "cuda",
}
"""The words that are bounds, each with its attribute of `ExistingGPU`."""


def nearest_bounds(word: str, wish: Wish, pod: Pod, view: ClusterView) -> list[str]:
    """Values of GPUs that a bound excludes, the nearest first; empty for words that are not bounds."""
    if word not in _FACTS:
        return []
    least, asked = word.startswith("min-"), _bound(word, wish)
    facts = {
        getattr(existing, _FACTS[word])
        for resource in requested_gpus(pod, view)
        for existing in existing_gpus(_with_claimable_devices(resource), view)
    }
    found = {_bound(word, has): has.words()[word] for has in _read(word, facts)}
    nearest = sorted((bound for bound in found if (bound < asked if least else bound > asked)), reverse=least)
    return [found[bound] for bound in nearest[:_MOST]]


def _with_claimable_devices(resource: RequestedGPU) -> RequestedGPU:
    """The GPU with the devices that conversion would claim for it."""
    if resource.devices is not None or resource.labels is None:
        return resource
    kind: Literal["gpu", "mig"] = "mig" if resource.labels.mig else "gpu"
    return replace(resource, devices=Subject(kind, resource.labels.profile))


def _bound(word: str, wish: Wish) -> Any:
    """A number, or a version as numbers."""
    return getattr(wish, word.replace("-", "_"))


def _read(word: str, facts: set[str]) -> Iterator[Wish]:
    """Wishes with the values of GPUs; invalid values of labels are skipped."""
    for fact in sorted(facts):
        try:
            yield Wish.of({word: fact})
        except WishError:
            continue
