"""Proofs of the migration of a survey's workloads, which are kept from one audit to the next."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.analyses.migrate.proof import MigrationProver
from policies.kubernetes.objects import name_of
from policies.kubernetes.view import UNKNOWN, ReadingView
from policies.outcome import MOST_SUBJECTS, Subject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.analyses.audit.survey import PodForm, Survey, Workload
    from policies.analyses.migrate.proof import WorkloadProof
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Unknown

__all__ = ["KeptProofs", "OwnPods", "SurveyProver"]


class OwnPods(NamedTuple):
    """Pods of one form and one controller."""

    pods: PodForm
    owner: str
    """The controller, such as `ReplicaSet train-5d8f`; empty for pods without one."""
    names: Sequence[str]


@dataclass(slots=True)
class KeptProofs:
    """The proofs of the last audit, and what they rest on.

    They hold until an object changes of any kind that the prover read: a place that a pod takes can decide for every other.
    """

    facts: tuple[Any, ...] = ()
    """The settings, the namespaces and the node pools."""
    generations: Mapping[str, int] = field(default_factory=dict)
    """The kinds that the prover read, each with its generation."""
    proofs: dict[bytes, WorkloadProof | None] = field(default_factory=dict)
    """By a hash of the workload; None if it requests no GPUs of a device plugin."""


class SurveyProver:
    """Proves the migration of workloads of a survey, whose pods the view has."""

    def __init__(self, survey: Survey, view: ClusterView, kept: KeptProofs) -> None:
        """Take over the proofs of the last audit that still hold; `kept` gets those of this one."""
        listed = view.list("Namespace")
        namespaces = {name_of(each) for each in (() if listed is UNKNOWN else listed)}
        namespaces |= {each.namespace for each in survey.workloads} | {namespace for namespace, _ in survey.pods}
        self._pools: Sequence[Object] | Unknown = UNKNOWN if "NodePool" in survey.missing else survey.node_pools
        self._settings, self._namespaces = survey.settings, namespaces
        facts = survey.settings, namespaces, self._pools
        self._view = ReadingView(view)
        self._known: Mapping[bytes, WorkloadProof | None] = {}
        if facts == kept.facts and all(view.generation(kind) == before for kind, before in kept.generations.items()):
            self._known = kept.proofs
            self._view.generations.update(kept.generations)
        kept.facts, kept.generations, kept.proofs = facts, self._view.generations, {}
        self._kept = kept
        self._proven = 0
        """Workloads that count towards `MOST_SUBJECTS`."""

    @cached_property
    def _prover(self) -> MigrationProver:
        return MigrationProver(self._view, self._settings, self._namespaces, node_pools=self._pools)

    def of_workload(self, workload: Workload, own: Sequence[OwnPods]) -> Iterator[WorkloadProof | None]:
        """The proofs of a workload: of its template, or of its stored pods if it has several templates."""
        if len(workload.forms) > 1 and own:
            yield from map(self.of_pods, own)
            return
        names = [name for each in own for name in each.names]
        for _, pod, count in workload.forms:
            label = f"{workload.kind} {workload.namespace}/{workload.name}"
            yield self._prove(label, workload.namespace, pod, names, count)

    def of_pods(self, own: OwnPods) -> WorkloadProof | None:
        """The proof of pods of one form and one controller."""
        pods = own.pods
        kind, _, name = (own.owner or f"pod {pods.first.name}").partition(" ")
        return self._prove(f"{kind} {pods.namespace}/{name}", pods.namespace, pods.pod or {}, own.names, len(own.names))

    def _prove(self, label: str, namespace: str, pod: Object, names: Sequence[str], count: int) -> WorkloadProof | None:
        text = json.dumps([label, namespace, pod, names, count], sort_keys=True, separators=(",", ":"))
        key = hashlib.sha256(text.encode()).digest()
        # Beyond the limit, the number of workloads before this one decides.
        is_counted = self._proven < MOST_SUBJECTS
        if is_counted and key in self._known:
            proof = self._known[key]
        else:
            found = (self._view.get("Pod", name, namespace) for name in names)
            stored = tuple(each for each in found if isinstance(each, dict))
            subject = Subject(label, namespace, pod, stored, len(stored) or max(1, count))
            self._prover.comparer.compared = self._proven
            proof = self._prover.prove(subject)
        self._proven += proof is not None
        if is_counted:
            self._kept.proofs[key] = proof
        return proof
