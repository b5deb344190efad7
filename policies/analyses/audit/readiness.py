"""Readiness: the workloads that conversion would change, refuse or leave, with proofs that are kept."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.admission import ConversionResult, ExpectedConversion, is_converted, requests_device_plugin
from policies.conversion.exemptions import Mode, mode_of
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.objects import FieldPath, name_of
from policies.kubernetes.view import UNKNOWN, ReadingView
from policies.outcome import MOST_SUBJECTS, Outcome, Subject
from policies.rules.decision import Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.analyses.audit.survey import Conversions, PodForm, Survey, Workload
    from policies.analyses.migrate.proof import MigrationProver, WorkloadProof
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Unknown
    from policies.rules.decision import Finding


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
    """By a hash of the form and the stored pods of a workload; None if it requests no GPUs of a device plugin."""


class SurveyProver:
    """Proves the migration of workloads of a survey, whose pods the view has."""

    def __init__(self, survey: Survey, view: ClusterView, kept: KeptProofs) -> None:
        """Take over the proofs of the last audit that still hold; `kept` gets those of this one."""
        namespaces = {name_of(each) for each in view.known_objects("Namespace")}
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
        from policies.analyses.migrate.proof import MigrationProver

        return MigrationProver(self._view, self._settings, self._namespaces, node_pools=self._pools)

    def of_workload(self, workload: Workload, own: Sequence[OwnPods]) -> Iterator[WorkloadProof | None]:
        """The proofs of a workload: of its template, or of its stored pods if it has several templates."""
        if len(workload.forms) > 1 and own:
            yield from map(self.of_pods, own)
            return
        names = [name for each in own for name in each.names]
        for form, pod, count in workload.forms:
            label = f"{workload.kind} {workload.namespace}/{workload.name}"
            yield self._prove(label, workload.namespace, form, pod, names, count)

    def of_pods(self, own: OwnPods) -> WorkloadProof | None:
        """The proof of pods of one form and one controller."""
        pods = own.pods
        kind, _, name = (own.owner or f"pod {pods.first.name}").partition(" ")
        label = f"{kind} {pods.namespace}/{name}"
        return self._prove(label, pods.namespace, pods.form, pods.pod or {}, own.names, len(own.names))

    def _prove(
        self, label: str, namespace: str, form: bytes, pod: Object, names: Sequence[str], count: int
    ) -> WorkloadProof | None:
        # Nothing depends on the label: all workloads of one form without pods have one proof.
        text = json.dumps([namespace, form.hex(), names, count], separators=(",", ":"))
        key = hashlib.sha256(text.encode()).digest()
        # Beyond the limit, the number of workloads before this one decides.
        is_counted = self._proven < MOST_SUBJECTS
        if is_counted and key in self._kept.proofs:
            proof = self._kept.proofs[key]
        elif is_counted and key in self._known:
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


_MOST_OBSTACLES = 5
_MOST_OWNERS = 5
"""Controllers above a pod that are followed: Deployment, ReplicaSet, pod are two."""
_CONVERTED = ExpectedConversion(ConversionResult.CONVERTED, ())
_DECISIVE = ("fit", "devices")
"""The properties without which a workload is not known to keep what it has."""

LOSS = Rule(
    "migration-loss",
    "A workload must keep what it has when claims replace the device plugin",
    default=Severity.WARN,
    why="""
    Each workload is compared before and after a migration of the whole cluster: where its pods find a place, which GPUs
    they get, what quotas count, whom they preempt, and whether Karpenter creates nodes for them.
    """,
    remedy="see gpu-admission migrate --prove, and change the workload or the nodes first",
    source="docs/migrate.md",
)
"""Only the audit has this rule, so no list of rules has it."""
UNPROVEN = Rule(
    "migration-unknown",
    "It must be known what a workload gets when claims replace the device plugin",
    default=Severity.WARN,
    why="A namespace is ready only if it is known where the pods of each workload find a place, and which GPUs they get.",
    remedy="see gpu-admission migrate --prove",
    source="docs/migrate.md",
)
"""Only the audit has this rule, so no list of rules has it."""


class _Verdict(Enum):
    """The result of conversion for a workload, the worst first."""

    REFUSED = "refused"
    LEFT = "left"
    LOSES = "loses"
    UNKNOWN = "unknown"
    KEEPS = "keeps"


@dataclass(frozen=True, slots=True)
class ConversionObstacle:
    """A reason why workloads would not convert, or a loss; with the message for the first one."""

    rule: Rule
    severity: Severity
    workload: str
    """Kind and name of the first workload, `Deployment train`."""
    path: FieldPath
    """The place in its pod."""
    message: str
    remedy: str
    count: int
    """The number of workloads."""


@dataclass(frozen=True, slots=True)
class ConversionReadiness:
    """The results for the workloads of a namespace that request GPUs from the device plugin."""

    namespace: str
    mode: Mode
    """The present mode of the namespace."""
    workloads: int
    """The number of objects with pod templates, and of pods without such an object."""
    converts: int
    """Workloads that are converted and keep what they have, or need no conversion because a DeviceClass stands for the
    resource."""
    refused: int
    """Workloads that would be refused."""
    left: int
    """Workloads that would stay with the device plugin."""
    loses: int = 0
    """Workloads that would be converted and lose something."""
    unknown: int = 0
    """Workloads that would be converted, and of which it is not known what they would get."""
    obstacles: tuple[ConversionObstacle, ...] = ()
    """The reasons why workloads are refused or left, or are unknown, and the losses of others; the one with the most workloads
    first."""
    preemption: ConversionObstacle | None = None
    """Workloads that can preempt other pods now, but not as converted pods; None if there are none."""
    pods_known: bool = True
    """False if pods cannot be read, so that workloads may be missing."""

    @property
    def is_ready(self) -> bool | None:
        """True if all workloads convert and keep what they have.

        None if those that are known do, and others are unknown or may be missing.
        """
        if self.converts + self.unknown != self.workloads:
            return False
        return True if self.pods_known and not self.unknown else None


@dataclass(slots=True)
class _Tally:
    """The counts of one namespace."""

    verdicts: Counter[_Verdict] = field(default_factory=Counter)
    reasons: Counter[tuple[str, ...]] = field(default_factory=Counter)
    firsts: dict[tuple[str, ...], tuple[str, Finding]] = field(default_factory=dict)
    """For each reason the first workload that it stops, and the finding."""
    preempting: Counter[tuple[str, Finding]] = field(default_factory=Counter)
    """Workloads that convert and lose preemption, each with the finding."""

    def add(
        self, label: str, count: int, conversions: Sequence[ExpectedConversion], proofs: Iterable[WorkloadProof | None]
    ) -> None:
        """Count `count` workloads, the first of them called `label`.

        Args:
            label: Kind and name.
            count: The number of workloads.
            conversions: What conversion does to their pods today.
            proofs: What becomes of the pods when the whole cluster is migrated; None for pods that need no conversion.
        """
        judged = [_judge_conversion(each) for each in conversions]
        if all(verdict is _Verdict.KEEPS for verdict, _ in judged):
            judged = [*judged, *(_judge_proof(each) for each in proofs if each is not None)]
        worst = min((verdict for verdict, _ in judged), key=[*_Verdict].index)
        self.verdicts[worst] += count
        lost = next(
            (each for made in conversions if made.result is ConversionResult.CONVERTED for each in made.findings), None
        )
        self.preempting.update({} if lost is None else {(label, lost): count})
        findings = {_reason(finding): finding for _, found in judged for finding in found}
        for reason, finding in findings.items():
            self.reasons[reason] += count
            self.firsts[reason] = min(self.firsts.get(reason, (label, finding)), (label, finding), key=itemgetter(0))

    def row(self, namespace: str, mode: Mode, *, pods_known: bool) -> ConversionReadiness:
        """The counts as a row of the report."""
        reasons = sorted(self.reasons.items(), key=lambda item: (-item[1], item[0]))[:_MOST_OBSTACLES]
        first = min(self.preempting, key=itemgetter(0), default=None)
        return ConversionReadiness(
            namespace,
            mode,
            workloads=self.verdicts.total(),
            converts=self.verdicts[_Verdict.KEEPS],
            refused=self.verdicts[_Verdict.REFUSED],
            left=self.verdicts[_Verdict.LEFT],
            loses=self.verdicts[_Verdict.LOSES],
            unknown=self.verdicts[_Verdict.UNKNOWN],
            obstacles=tuple(_obstacle(*self.firsts[reason], count) for reason, count in reasons),
            preemption=None if first is None else _obstacle(*first, self.preempting.total()),
            pods_known=pods_known,
        )


def _judge_conversion(conversion: ExpectedConversion) -> tuple[_Verdict, tuple[Finding, ...]]:
    match conversion.result:
        case ConversionResult.REFUSED:
            return _Verdict.REFUSED, conversion.findings
        case ConversionResult.DEVICE_PLUGIN:
            return _Verdict.LEFT, conversion.findings
    return _Verdict.KEEPS, ()


def _judge_proof(proof: WorkloadProof) -> tuple[_Verdict, tuple[Finding, ...]]:
    """The verdict of `gpu-admission migrate --prove`, with its reasons as findings.

    Autoscaling, which is the same for all workloads, has one finding for the cluster (`karpenter`).
    """
    if proof.left:
        return _Verdict.LEFT, proof.findings or (LOSS.finding(FieldPath(()), proof.left),)
    lost = {
        key: cell.sentence
        for key, cell in proof.cells.items()
        if key != "autoscaling" and cell.outcome in (Outcome.LOST, Outcome.CHANGED)
    }
    if lost:
        lost.pop("preemption", None)  # is reported by its own rule
        if proof.cells["devices"].outcome is Outcome.LOST:
            lost.pop("devices")  # follows from the fit: no node takes a pod
        return _Verdict.LOSES, tuple(LOSS.finding(FieldPath(()), f"{key}: {why}") for key, why in lost.items())
    unknown = next((key for key in _DECISIVE if proof.cells[key].outcome is Outcome.UNKNOWN), None)
    if unknown is None:
        return _Verdict.KEEPS, ()
    reason = proof.cells[unknown].sentence.removeprefix("unknown: ")
    return _Verdict.UNKNOWN, (UNPROVEN.finding(FieldPath(()), reason),)


def readiness(
    survey: Survey, conversions: Conversions, view: ClusterView, kept: KeptProofs
) -> tuple[ConversionReadiness, ...]:
    """A row for each namespace that has opted in, or has workloads that request GPUs."""
    tallies: defaultdict[str, _Tally] = defaultdict(_Tally)
    pods_by_workload = _pods_by_workload(survey)
    prover = SurveyProver(survey, view, kept)
    for workload in survey.workloads:
        check_cancelled()
        requesting = [each for each in workload.forms if requests_device_plugin(each[1], view)]
        if requesting and not conversions.never_converts(workload.namespace):
            label = f"{workload.kind} {workload.name}"
            of_pods = [conversions.of(workload.namespace, form, pod) for form, pod, _ in requesting]
            proofs = prover.of_workload(workload, pods_by_workload.get((workload.namespace, label), ()))
            tallies[workload.namespace].add(label, 1, of_pods, list(proofs))
    lone: dict[tuple[str, str], tuple[int, list[ExpectedConversion], list[WorkloadProof | None]]] = {}
    for pods in survey.pods.values():
        check_cancelled()
        if (conversion := _conversion_of_lone_pods(pods, conversions, view)) is None:
            continue
        for owner, names in pods.owners.items():
            # An unknown controller counts as one workload, however many kinds of pods it has.
            label, count = (owner, 1) if owner else (f"Pod {pods.first.name}", len(names))
            found = lone.setdefault((pods.namespace, label), (count, [], []))
            found[1].append(conversion)
            if conversion is not _CONVERTED:
                found[2].append(prover.of_pods(OwnPods(pods, owner, names)))
    for (namespace, label), (count, of_lone, lone_proofs) in lone.items():
        tallies[namespace].add(label, count, of_lone, lone_proofs)
    for namespace in _opted_in(survey, conversions, view):
        tallies.setdefault(namespace, _Tally())
    pods_known = "Pod" not in survey.missing
    return tuple(
        tallies[namespace].row(namespace, mode_of(namespace, view), pods_known=pods_known)
        for namespace in sorted(tallies)
    )


def _pods_by_workload(survey: Survey) -> dict[tuple[str, str], list[OwnPods]]:
    """The pods of each workload of the survey, by its namespace and label."""
    found: defaultdict[tuple[str, str], list[OwnPods]] = defaultdict(list)
    for pods in survey.pods.values():
        for owner, names in pods.owners.items() if pods.pod is not None else ():
            top = owner
            for _ in range(_MOST_OWNERS):
                top = survey.parents.get((pods.namespace, top), top)
            found[pods.namespace, top].append(OwnPods(pods, owner, names))
    return found


def _conversion_of_lone_pods(pods: PodForm, conversions: Conversions, view: ClusterView) -> ExpectedConversion | None:
    """The conversion of pods without a known workload; None if they have one, or request no GPUs."""
    if pods.has_workload or pods.pod is None or conversions.never_converts(pods.namespace):
        return None
    if is_converted(pods.pod):
        return _CONVERTED
    return conversions.of(pods.namespace, pods.form, pods.pod) if requests_device_plugin(pods.pod, view) else None


def _opted_in(survey: Survey, conversions: Conversions, view: ClusterView) -> Iterator[str]:
    for each in view.known_objects("Namespace"):
        name = name_of(each)
        if survey.namespace not in ("", name) or conversions.never_converts(name):
            continue
        if mode_of(name, view) in (Mode.ENABLED, Mode.PREVIEW):
            yield name


def _obstacle(label: str, finding: Finding, count: int) -> ConversionObstacle:
    return ConversionObstacle(
        finding.rule, finding.severity, label, finding.path, finding.message, finding.remedy, count
    )


def _reason(finding: Finding) -> tuple[str, ...]:
    """Equal for findings that stop several workloads for one reason."""
    return (finding.rule.id, finding.severity, finding.message, finding.remedy)
