"""Changes of a converted pod's claim, in the words of its manifest, and of its wishes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from policies.analyses.explain.explanations import Change
from policies.analyses.explain.relaxations import Relaxation
from policies.conversion.constraints import ConstraintError, NodeConstraints
from policies.conversion.converted_pods import conversion_record
from policies.devices.resource_claims import Claim
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.names import PREFIX, format_list, shorten
from policies.kubernetes.objects import items_at
from policies.kubernetes.pods import Pod
from policies.nvidia.labels import Subject, is_gpu_label
from policies.nvidia.wishes import Wish, WishError
from policies.outcome import pod_question
from policies.placement.wanted_nodes import existing_gpus, requested_gpus
from policies.placement.wish_annotations import read_wishes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.conversion.record import ConversionRecord
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.outcome import NamedClaim, Question
    from policies.placement.pod_wishes import PodWishes
    from policies.placement.wanted_nodes import RequestedGPU
    from policies.rules.settings import GPUAdmissionPolicy


@dataclass(frozen=True, slots=True)
class ConvertedClaim:
    """The claim that conversion made for the GPUs of a pod."""

    number: int
    """The index of the claim in the problem."""
    claim: NamedClaim
    record: ConversionRecord

    def in_manifest(self, relaxation: Relaxation) -> Relaxation | None:
        """A change of this claim as a change of the manifest; None if the manifest cannot say it.

        A manifest with extended resources tolerates no device taints and requests no capacity. What its labels require is
        changed by `label_changes`, what its wishes require by the changes of wishes.
        """
        if relaxation.change is not Change.COUNT:
            return None
        request = relaxation.request.partition("/")[0]
        piece = next(each for each in self.record.claim.pieces if each.request == request)
        resource, fewer = piece.resource, piece.count + relaxation.loss[0]
        amounts = {each.name: each.resources.get(resource, 0) for each in self.record.containers}
        changed = [name for name in piece.containers if amounts[name] > fewer]
        containers = [
            replace(each, resources={**each.resources, resource: fewer}) if each.name in changed else each
            for each in self.record.containers
        ]
        before = sorted({amounts[name] for name in changed})
        instead = f" instead of {before[0]}" if len(before) == 1 else ""
        where = f"container{'s' * (len(changed) > 1)} {format_list(changed)}"
        sentence = f"request {fewer} {resource}{instead} in {where}"
        claim = self._claim_by(replace(self.record, containers=tuple(containers)))
        return replace(relaxation, sentence=sentence, claim=claim, is_of_manifest=True)

    def label_changes(self) -> Iterator[Relaxation]:
        """The claim without the conditions on one label of nodes, for each label that the manifest selects by."""
        constraints = self.record.constraints
        for key, value in constraints.node_selector.items():
            rest = {other: text for other, text in constraints.node_selector.items() if other != key}
            sentence = f"leave out {shorten(f'{key}: {value}')} in the nodeSelector"
            yield from self._with_constraints(replace(constraints, node_selector=rest), key, sentence)
        expressions = [each for term in constraints.terms or () for each in items_at(term, ("matchExpressions",))]
        for key in dict.fromkeys(each["key"] for each in expressions if is_gpu_label(each["key"])):
            terms = [
                {
                    **term,
                    "matchExpressions": [each for each in items_at(term, ("matchExpressions",)) if each["key"] != key],
                }
                for term in constraints.terms or ()
            ]
            # A term without conditions matches no node for Kubernetes; here it stands for a term without the label.
            kept = terms if all(any(term.values()) for term in terms) else None
            sentence = f"leave out what the node affinity requires of {shorten(key)}"
            yield from self._with_constraints(replace(constraints, terms=kept), key, sentence)

    def _with_constraints(self, constraints: NodeConstraints, key: str, sentence: str) -> Iterator[Relaxation]:
        try:
            claim = self._claim_by(replace(self.record, constraints=constraints))
        except ConstraintError:
            return  # What remains of the affinity has no equivalent on devices, so that pod would not be converted.
        yield Relaxation(Change.SELECTOR, sentence, self.number, claim, topic=("label", key), is_of_manifest=True)

    def _claim_by(self, record: ConversionRecord) -> NamedClaim:
        """The claim that conversion would make by another record."""
        document = {**self.claim.claim.document, "spec": record.claim.spec["spec"]}
        return replace(self.claim, claim=Claim(document))


def converted_claim(pod: Pod | None, claims: Sequence[NamedClaim]) -> ConvertedClaim | None:
    """The claim that conversion made for a pod; None without one that still needs its devices."""
    record = None if pod is None else conversion_record(pod)
    if record is None or record.classes:
        return None
    requests = {each for piece in record.claim.pieces for each in piece.requests}
    for number, claim in enumerate(claims):
        if {each.name for each in claim.claim.requests} == requests:
            return ConvertedClaim(number, claim, record)
    return None


@dataclass(frozen=True, slots=True)
class WishChange:
    """The question with one word of the pod's wishes changed."""

    word: str
    sentence: str
    """The change, an imperative without a full stop: `drop the wish gpu-admission.io/product: H100*`."""
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
    after = read_wishes(Pod.read(dropped), namespace, view, settings)
    arrived = [after.said(word) for word in after.texts if word in after.defaults - wishes.defaults]
    effect = f", so that {' and '.join(arrived)} {'hold' if len(arrived) > 1 else 'holds'}" if arrived else ""
    yield _Edit(f"drop the wish {said}{effect}", dropped, settings)


def _with_annotations(pod: Object, annotations: dict[str, str]) -> Object:
    return {**pod, "metadata": {**(pod.get("metadata") or {}), "annotations": annotations}}


def _without_default(settings: GPUAdmissionPolicy, word: str) -> GPUAdmissionPolicy:
    defaults = tuple(
        replace(default, wish={each: text for each, text in default.wish.items() if each != word})
        for default in settings.placement.wishes
    )
    return replace(settings, placement=replace(settings.placement, wishes=defaults))


_MOST = 2
"""Bounds that are tried for one word, the nearest first."""
_FACTS = {
    "min-memory": "memory",
    "max-memory": "memory",
    "gpu-memory": "memory",
    "min-compute-capability": "compute_capability",
    "min-driver": "driver",
    "min-cuda": "cuda",
}
"""The words that are bounds, each with its attribute of `ExistingGPU`."""


def nearest_bounds(word: str, wish: Wish, pod: Pod, view: ClusterView) -> list[str]:
    """Values of GPUs that a bound excludes, the nearest first; empty for words that are not bounds."""
    if word not in _FACTS:
        return []
    least, asked = not word.startswith("max-"), _bound(word, wish)
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
