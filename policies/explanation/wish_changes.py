"""Changes of a pod's wish, one word at a time: a bound moved to what GPUs have, or the word dropped."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.dra.allocation.requests import read_claim
from policies.dra.cel.conjuncts import conjuncts
from policies.explanation.pod_questions import pod_question
from policies.explanation.wish_bounds import nearest_bounds
from policies.kubernetes.pods import Pod
from policies.nvidia.wishes import PREFIX
from policies.placement.wishes import read_wishes

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.keeping_on import KeepOn
    from policies.explanation.question import Question
    from policies.kubernetes.objects import Object
    from policies.placement.wishes import PodWishes
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["WishChange", "wish_changes"]


@dataclass(frozen=True, slots=True)
class WishChange:
    """A question with one word of the pod's wish changed."""

    word: str
    sentence: str
    """What to change, an imperative without a full stop: `drop the wish gpu-admission.io/product: H100*`."""
    question: Question
    """Of the pod as review would leave it then."""
    conditions: frozenset[str]
    """The conditions of selectors that conversion made of the word as it is."""


@dataclass(frozen=True, slots=True)
class _Edit:
    """A pod with one word changed, and the settings that hold for it."""

    sentence: str
    written: Object
    settings: GPUAdmissionPolicy


def wish_changes(
    question: Question, view: ClusterView, settings: GPUAdmissionPolicy, keep_on: KeepOn
) -> Iterator[WishChange]:
    """What could be changed in each word that decides something; of one word, what changes least first.

    Defaults of the settings are words too. A word that is dropped may let a default hold, and the sentence says so.
    """
    if question.written is None or question.pod is None:
        return
    pod = Pod.read(question.written)
    wishes = read_wishes(pod, question.namespace, view, settings)
    conditions = _conditions(question)
    for word in wishes.texts:
        keep_on()
        for edit in _edits(word, pod, question.namespace, wishes, view, settings):
            keep_on()
            then = pod_question(edit.written, question.label, question.namespace, view, edit.settings, stored=False)
            if then.pod is not None and not then.obstacles and then.pod.spec != question.pod.spec:
                yield WishChange(word, edit.sentence, then, conditions - _conditions(then))


def _edits(
    word: str, pod: Pod, namespace: str, wishes: PodWishes, view: ClusterView, settings: GPUAdmissionPolicy
) -> Iterator[_Edit]:
    said = wishes.said(word)
    for bound in nearest_bounds(word, wishes.wish, pod, view):
        moved = _annotated(pod.document, {**pod.annotations, PREFIX + word: bound})
        yield _Edit(
            f"write {PREFIX}{word}: {bound} instead of {said.removeprefix(f'{PREFIX}{word}: ')}", moved, settings
        )
    if word in wishes.defaults:
        yield _Edit(f"drop the wish {said}", pod.document, _without_default(settings, word))
        return
    left = {key: text for key, text in pod.annotations.items() if key != PREFIX + word}
    dropped = _annotated(pod.document, left)
    arrived = _arrived(wishes, read_wishes(Pod.read(dropped), namespace, view, settings))
    yield _Edit(f"drop the wish {said}{arrived}", dropped, settings)


def _annotated(pod: Object, annotations: dict[str, str]) -> Object:
    return {**pod, "metadata": {**(pod.get("metadata") or {}), "annotations": annotations}}


def _without_default(settings: GPUAdmissionPolicy, word: str) -> GPUAdmissionPolicy:
    defaults = tuple(
        replace(default, wish={each: text for each, text in default.wish.items() if each != word})
        for default in settings.placement.wishes
    )
    return replace(settings, placement=replace(settings.placement, wishes=defaults))


def _arrived(before: PodWishes, after: PodWishes) -> str:
    """The defaults that hold once the pod no longer says otherwise."""
    arrived = [after.said(word) for word in after.texts if word in after.defaults - before.defaults]
    return f", so that {' and '.join(arrived)} {'hold' if len(arrived) > 1 else 'holds'}" if arrived else ""


def _conditions(question: Question) -> frozenset[str]:
    """The conditions of the selectors that conversion wrote, if it did."""
    claims = [read_claim(named.claim) for named in question.claims] if question.converted_to else []
    return frozenset(
        conjunct.text
        for claim in claims
        for request in claim.requests
        for alternative in request.alternatives
        for selector in alternative.selectors
        if selector is not None
        for conjunct in conjuncts(selector)
    )
