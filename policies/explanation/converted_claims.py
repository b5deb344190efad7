"""Converted claims: changes of the claim of a converted pod, in the words of its manifest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from policies.conversion.constraints import ConstraintError, NodeConstraints
from policies.conversion.converted_pods import conversion_record
from policies.dra.resource_claims import Claim
from policies.explanation.relaxations import Relaxation
from policies.explanation.report import Change
from policies.kubernetes.paths import items_at
from policies.nvidia.labels import is_gpu_label
from policies.phrases import format_list, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.conversion.record import ConversionRecord
    from policies.kubernetes.pods import Pod
    from policies.outcome import NamedClaim

__all__ = ["ConvertedClaim", "converted_claim"]


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
        piece = next(each for each in self.record.claim.pieces if each.request == relaxation.request)
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
    requests = {piece.request for piece in record.claim.pieces}
    for number, claim in enumerate(claims):
        if {each.full_name for each in claim.claim.subrequests} == requests:
            return ConvertedClaim(number, claim, record)
    return None
