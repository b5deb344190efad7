"""The wait list: pods and workloads that wait for GPUs, since when, why, and what would help.

The reasons and remedies are those of `policies.analyses.explain`. Pods with one explanation are one row. Workloads appear if
their controllers were seen to run and pods are missing, because admission or a quota refuses them, or the workload is suspended.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta  # noqa: TC003 - pydantic reads the annotation
from typing import TYPE_CHECKING

from policies.analyses.explain import explain, name_redactor
from policies.analyses.wait_reasons import WaitCause, WaitReason, cause_of_obstacle, gated_cause, wait_cause
from policies.analyses.waiting import MIN_AGE, alike_key, creation_time, is_gated, is_pending, stuck_pods
from policies.fleet import gpu_requests, may_request_gpu
from policies.kubernetes.names import format_count, printable, shorten
from policies.kubernetes.objects import DEFAULT_NAMESPACE, lookup, mappings_at, name_of, namespace_of
from policies.kubernetes.pod_templates import pod_priority
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.workloads import existing_pods, is_suspended, missing_pods
from policies.outcome import EVERYTHING, ObstacleKind, pod_question, questions, workload_subjects
from policies.quota.demands.claims import demands_of_claim
from policies.quota.demands.pods import demands_of_pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.outcome import Audience, Question, Subject
    from policies.rules.charges import DeviceDemand
    from policies.rules.settings import GPUAdmissionPolicy


@dataclass(frozen=True, slots=True)
class WaitRow:
    """Pods of one namespace that wait for the same reason, or the missing pods of a workload."""

    namespace: str
    kind: str
    """`Pod`, or the kind of the workload whose pods are missing."""
    name: str
    """The pod that waits longest, or the workload."""
    count: int
    """The number of pods."""
    wants: str
    """The devices that one pod requests: `8 x H100-80GB-HBM3`; empty if they are unknown."""
    since: datetime | None
    """The creation of the pod that waits longest, or of the workload; None if unknown."""
    priority: int | None
    """Of the pods; None if unknown."""
    reason: WaitReason
    why: str
    """A clause without a full stop."""
    remedy: str
    """An imperative without a full stop; empty if there is nothing to do but wait."""
    fit_now: int | None
    """The number of these pods that would fit now; None if it is unknown, or the pods are bound already."""
    pods: tuple[str, ...] = ()
    """The names of the pods, that which waits longest first; empty if they do not exist."""

    @property
    def label(self) -> str:
        """`team-a/train`, `team-a/train-0 (x8)`, `Deployment team-a/web (x2)`."""
        kind = "" if self.kind == "Pod" else f"{self.kind} "
        return f"{kind}{self.namespace}/{self.name}{f' (x{self.count:,})' if self.count > 1 else ''}"

    @property
    def fit_text(self) -> str:
        """The number that would fit now: `0`, `3`, or `?`; empty for pods that are bound already."""
        return "" if self.reason is WaitReason.NOT_STARTED else "?" if self.fit_now is None else f"{self.fit_now:,}"


@dataclass(frozen=True, slots=True)
class WaitList:
    """Everything that waits for GPUs, the highest priority first, then what waits longest."""

    rows: tuple[WaitRow, ...] = ()
    is_known: bool = True
    """False if pods are unknown."""
    now: datetime | None = None
    """The time from which ages are computed."""

    def age_of(self, row: WaitRow) -> timedelta | None:
        """The time that the oldest pod of a row has waited; None if unknown."""
        return None if row.since is None or self.now is None else self.now - row.since

    @property
    def counts(self) -> Mapping[WaitReason, int]:
        """The number of pods by reason, the most frequent reason first."""
        counts = Counter[WaitReason]()
        for row in self.rows:
            counts[row.reason] += row.count
        return dict(counts.most_common())

    @property
    def total(self) -> int:
        """The number of pods that wait."""
        return sum(row.count for row in self.rows)

    @property
    def summary(self) -> str:
        """`7 pods wait for GPUs: fitting nodes in use (4), no node fits (3)`."""
        if not self.is_known:
            return "it is unknown which pods wait for GPUs, because pods are unknown"
        if not self.rows:
            return "no pod waits for GPUs"
        reasons = ", ".join(f"{reason.words} ({count:,})" for reason, count in self.counts.items())
        left_out = sum(row.count for row in self.rows if row.why == _NOT_EXPLAINED)
        rest = f"; {left_out:,} of them {'was' if left_out == 1 else 'were'} not explained" if left_out else ""
        return f"{format_count(self.total, 'pod')} {'waits' if self.total == 1 else 'wait'} for GPUs: {reasons}{rest}"


_MOST_EXPLAINED = 200
"""Different pods and workloads that are explained, those that wait longest first."""
_MOST_VISITS = 200_000
"""Nodes that all explanations look at together: with 2,000 nodes, 100 explanations, which take about five seconds of CPU."""
_NOT_EXPLAINED = "not explained: too many different pods wait; those that have waited longest are"
_LONGEST_WHY = 300
"""Characters."""


def wait_list(
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    now: datetime,
    audience: Audience = EVERYTHING,
    *,
    unexplained: str = "",
    has_time: Callable[[], bool] = lambda: True,
    more_workloads: Iterable[Object] = (),
) -> WaitList:
    """The pods and workloads that wait for GPUs, with the reasons that `explain` gives for each.

    Args:
        view: The cluster.
        settings: The administrator's settings.
        now: The time from which ages are computed.
        audience: Who reads it; one of a single namespace sees the rows of that namespace only.
        unexplained: Why no pod without a node can be explained, a clause; empty if they can.
        has_time: Returns False when no further pod without a node shall be explained.
        more_workloads: Workloads that the view lacks, because the service watches none; as of the last audit.
    """
    unbound = view.derive_each("Pod", _unbound_pod)
    if unbound is UNKNOWN:
        return WaitList(is_known=False)
    waiting = [
        pod for pod in unbound if pod is not None and audience.may_name(_home(pod)) and not _is_younger(pod, now)
    ]
    allowed = min(_MOST_EXPLAINED, _MOST_VISITS // max(len(view.known_objects("Node")), 1))
    counted = iter(range(allowed))

    def may_explain() -> bool:
        return has_time() and next(counted, None) is not None

    rows = [
        *_pending_rows(waiting, view, settings, audience, unexplained, may_explain),
        *_stuck_rows(view, settings, now, audience),
        *_workload_rows(view, settings, now, audience, more_workloads, may_explain),
    ]
    return WaitList(tuple(sorted(rows, key=_order)), now=now)


def unscheduled_counts(view: ClusterView, now: datetime) -> Counter[WaitReason]:
    """The number of pods that wait for their gates, or on their node to start."""
    unbound = view.derive_each("Pod", _unbound_pod)
    gated = [
        pod
        for pod in (() if unbound is UNKNOWN else unbound)
        if pod is not None and is_gated(pod) and any(gpu_requests(pod, _home(pod), view))
    ]
    return Counter({WaitReason.GATED: len(gated), WaitReason.NOT_STARTED: len(stuck_pods(view, now))})


def missing_counts(
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    now: datetime,
    workloads: Iterable[Object],
    has_time: Callable[[], bool],
) -> Counter[WaitReason]:
    """The number of missing pods of workloads that the view lacks, by reason."""
    counts = Counter[WaitReason]()
    for row in _workload_rows(view, settings, now, EVERYTHING, workloads, has_time):
        counts[row.reason] += row.count
    return counts


def _order(row: WaitRow) -> tuple[int, float, str, str]:
    since = float("inf") if row.since is None else row.since.timestamp()
    return -(row.priority or 0), since, row.namespace, row.name


def _home(document: Object) -> str:
    return namespace_of(document) or DEFAULT_NAMESPACE


def _unbound_pod(pod: Object) -> Object | None:
    """The pod if it requests devices and has no node yet, else None."""
    return pod if (is_pending(pod) or is_gated(pod)) and may_request_gpu(pod) else None


def _is_younger(document: Object, now: datetime) -> bool:
    created = creation_time(document)
    return created is not None and now - created < MIN_AGE


@dataclass(slots=True)
class _AlikePods:
    """Pods with one explanation."""

    question: Question
    pods: list[Object] = field(default_factory=list)

    @property
    def oldest(self) -> Object:
        return self.pods[0]


def _pending_rows(
    pods: Iterable[Object],
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    audience: Audience,
    unexplained: str,
    has_time: Callable[[], bool],
) -> Iterator[WaitRow]:
    """The rows of pods without a node."""
    groups: dict[tuple[str, tuple[str, ...]], _AlikePods] = {}
    pods = sorted(pods, key=_age_order)
    users = Counter((_home(pod), claim) for pod in pods for claim in _named_claims(pod))
    for pod in pods:
        (question,) = questions(pod, _home(pod), view, settings, found=True)
        question = _with_own_claims(question, users)
        gates = tuple(str(each.get("name")) for each in mappings_at(pod, ("spec", "schedulingGates")))
        groups.setdefault((alike_key(question), gates), _AlikePods(question)).pods.append(pod)
    for (_, gates), alike in groups.items():
        if not any(gpu_requests(alike.oldest, alike.question.namespace, view)):
            continue
        why = unexplained or ("" if has_time() else _NOT_EXPLAINED)
        if why:
            cause, fit_now = WaitCause(WaitReason.UNKNOWN, why, _explain_command(alike.oldest)), None
        else:
            explanation = explain(alike.question, view, settings, audience=audience)
            cause, fit_now = wait_cause(explanation, len(alike.pods)), explanation.replicas
        if gates:
            cause = gated_cause(alike.oldest, gates)
        yield _row(alike.pods, alike.question, cause, fit_now, view, settings)


def _named_claims(pod: Object) -> Iterator[str]:
    """The claims that a pod names by `resourceClaimName`."""
    for entry in mappings_at(pod, ("spec", "resourceClaims")):
        if isinstance(name := entry.get("resourceClaimName"), str):
            yield name


def _with_own_claims(question: Question, users: Mapping[tuple[str, str], int]) -> Question:
    """The question in which a claim that no other pod names counts as the pod's own."""
    claims = tuple(
        replace(named, shared=False)
        if named.shared and not named.group and users[question.namespace, name_of(named.claim.document)] == 1
        else named
        for named in question.claims
    )
    return replace(question, claims=claims)


def _age_order(pod: Object) -> tuple[float, str, str]:
    since = creation_time(pod)
    return float("inf") if since is None else since.timestamp(), namespace_of(pod), name_of(pod)


def _explain_command(pod: Object) -> str:
    return f"run gpu-admission explain pod/{printable(name_of(pod))} -n {_home(pod)}"


def _row(
    pods: Sequence[Object],
    question: Question,
    cause: WaitCause,
    fit_now: int | None,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
) -> WaitRow:
    """The row of pods with one reason, the oldest first."""
    oldest = pods[0]
    priority = pod_priority(lookup(oldest, ("spec",)), view)
    return WaitRow(
        question.namespace,
        "Pod",
        name_of(oldest),
        len(pods),
        _wants(question, view, settings),
        creation_time(oldest),
        None if priority is UNKNOWN else priority,
        cause.reason,
        shorten(cause.why, _LONGEST_WHY),
        cause.remedy,
        None if fit_now is None else min(fit_now, len(pods)),
        tuple(name_of(pod) for pod in pods),
    )


_BRAND = "NVIDIA-"


def _wants(question: Question, view: ClusterView, settings: GPUAdmissionPolicy) -> str:
    """The devices that one pod requests, as quotas count them."""
    if question.pod is None:
        return ""
    demands = [*demands_of_pod(question.pod, (), view, settings.quota).pieces.get("", ())]
    for claim in (*question.claims, *question.allocated):
        demands += demands_of_claim(claim.claim.document, view, settings.quota).demands
    amounts = Counter[str]()
    for demand in demands:
        amounts[_devices_text(demand)] += demand.count
    return " + ".join(f"{count:,} x {devices}" for devices, count in amounts.items())


def _devices_text(demand: DeviceDemand) -> str:
    """The devices of a demand: `H100-80GB-HBM3`, `MIG 1g.10gb`, `share of Tesla-T4`, `GPU`."""
    kinds = demand.kinds or demand.unseen
    products = sorted({kind.product.removeprefix(_BRAND) for kind in kinds if kind.product})
    profiles = {kind.profile for kind in kinds}
    text = products[0] if len(products) == 1 else ""
    if len(profiles) == 1 and (profile := profiles.pop()):
        text = f"{text} MIG {profile}".lstrip()
    elif kinds and all(kind.gpus < 1 and not kind.profile for kind in kinds):
        text = f"share of {text or 'a GPU'}"
    return text or "GPU"


def _stuck_rows(
    view: ClusterView, settings: GPUAdmissionPolicy, now: datetime, audience: Audience
) -> Iterable[WaitRow]:
    """The rows of bound pods that do not start; those that differ in the names of pods only are one row."""
    stuck = {(each.namespace, each.pod): each for each in stuck_pods(view, now) if audience.may_name(each.namespace)}
    pods = view.known_objects("Pod", audience.namespace) if stuck else ()
    rows: dict[tuple[object, ...], WaitRow] = {}
    for pod in sorted((pod for pod in pods if (_home(pod), name_of(pod)) in stuck), key=_age_order):
        home = _home(pod)
        (question,) = questions(pod, home, view, settings, found=True)
        obstacle = next(iter(explain(question, view, settings, audience=audience).obstacles), None)
        where = f"bound to node {printable(question.node_name)}" if audience.sees_nodes else "bound"
        why = stuck[home, name_of(pod)].reason if obstacle is None else obstacle.sentence
        remedy = _explain_command(pod) if obstacle is None else obstacle.remedy
        cause = WaitCause(WaitReason.NOT_STARTED, f"{where}, and does not start: {why}", remedy)
        row = _row([pod], question, cause, None, view, settings)
        key = row.namespace, row.wants, row.priority, row.why, row.remedy
        first = rows.get(key)
        rows[key] = row if first is None else replace(first, count=first.count + 1, pods=(*first.pods, *row.pods))
    return rows.values()


_FAILED = "FailedCreate"
"""The reason of events and conditions of controllers whose pods are refused."""
_EXCEEDED = "exceeded quota"
"""In refusals by quotas, those of Kubernetes and ours."""


def _workload_rows(
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    now: datetime,
    audience: Audience,
    more: Iterable[Object],
    has_time: Callable[[], bool],
) -> Iterator[WaitRow]:
    """The rows of workloads whose pods are missing."""
    for subject in workload_subjects(view, settings, more):
        workload = subject.workload
        if workload is None or not audience.may_name(subject.namespace) or _is_younger(workload, now):
            continue
        missing = missing_pods(workload, subject.wanted, len(subject.pods))
        if not missing:
            continue
        document = {**subject.document, "metadata": {**subject.document.get("metadata", {}), "ownerReferences": []}}
        question = pod_question(document, subject.label, subject.namespace, view, settings, stored=False)
        if not any(gpu_requests(document, subject.namespace, view)):
            continue
        fit_now: int | None = None
        if is_suspended(workload):
            cause = gated_cause(workload, ())
        elif not has_time():
            cause = WaitCause(WaitReason.UNKNOWN, _NOT_EXPLAINED, _describe_command(workload))
        else:
            cause, fit_now = _missing_cause(subject, workload, question, missing, view, settings, audience)
        priority = pod_priority(lookup(subject.document, ("spec",)), view)
        yield WaitRow(
            subject.namespace,
            str(workload["kind"]),
            name_of(workload),
            missing,
            _wants(question, view, settings),
            creation_time(workload),
            None if priority is UNKNOWN else priority,
            cause.reason,
            shorten(cause.why, _LONGEST_WHY),
            cause.remedy,
            None if fit_now is None else min(fit_now, missing),
        )


def _missing_cause(
    subject: Subject,
    workload: Object,
    question: Question,
    missing: int,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    audience: Audience,
) -> tuple[WaitCause, int | None]:
    """The reason why a workload has too few pods, by review or its controller, and how many fit now."""
    explanation = explain(question, view, settings, audience=audience)
    if explanation.obstacles and explanation.obstacles[0].kind in (ObstacleKind.REFUSED, ObstacleKind.QUOTA_EXCEEDED):
        return cause_of_obstacle(explanation.obstacles[0]), 0
    remedy = _describe_command(workload)
    if message := _refusal_of_pods(workload, view):
        reason = WaitReason.QUOTA if _EXCEEDED in message else WaitReason.REFUSED
        message = message if audience == EVERYTHING else name_redactor(view, audience)(message)
        return WaitCause(reason, f"its pods are refused: {message}", remedy), 0
    existing = existing_pods(workload, len(subject.pods))
    total = format_count(missing + existing, "pod")
    why = f"{existing:,} of {total} exist, and nothing says why the others do not"
    return WaitCause(WaitReason.NOT_CREATED, why, remedy), explanation.replicas


def _describe_command(workload: Object) -> str:
    kind = str(workload["kind"]).lower()
    return f"kubectl describe {kind} {printable(name_of(workload))} -n {_home(workload)} shows its events"


def _refusal_of_pods(workload: Object, view: ClusterView) -> str:
    """The last message of a controller whose pods are refused; empty if there is none."""
    for condition in mappings_at(workload, ("status", "conditions")):
        if condition.get("reason") == _FAILED and condition.get("status") == "True":
            return str(condition.get("message") or "")
    about = {"kind": workload.get("kind"), "name": name_of(workload)}
    events = [
        event
        for event in view.known_objects("Event", _home(workload))
        if event.get("reason") == _FAILED and {key: lookup(event, ("involvedObject", key)) for key in about} == about
    ]
    last = max(events, key=lambda event: str(event.get("lastTimestamp") or ""), default={})
    return str(last.get("message") or "")
