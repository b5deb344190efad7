"""Writes conditions and events of pods that wait for GPUs, a bounded number per second."""

from __future__ import annotations

import logging
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.analyses.explain import explain
from policies.analyses.wait_list import unscheduled_counts
from policies.analyses.wait_reasons import WaitReason, wait_cause
from policies.analyses.waiting import (
    NOTHING_WRITTEN,
    ConditionStep,
    EventStep,
    WrittenEvent,
    WrittenToPod,
    alike_key,
    condition_step,
    event_step,
    for_all_alike,
    is_waiting,
    pod_state,
    waiting_result,
)
from policies.fleet import gpu_requests
from policies.kubernetes.bounds import Work, bounded_by, check_cancelled
from policies.kubernetes.names import SCHEDULABLE
from policies.kubernetes.view import UNKNOWN
from policies.outcome import READ_FROM, Audience, questions
from webhook.cluster.answers import APIError
from webhook.cluster.client import STRATEGIC_PATCH
from webhook.cluster.clockwork import Clockwork, micro_time, rfc3339
from webhook.cluster.resources import NEW_EVENT, RESOURCES
from webhook.controllers.metrics import IncompleteRound
from webhook.server.template_keeper import FIELD_MANAGER
from webhook.server.turns import run_spread

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from policies.analyses.waiting import PodState, WaitingResult
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.outcome import Question
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cluster.client import APIClient
    from webhook.controllers.metrics import WaitingMetrics


MISSING_RIGHTS = (
    "the reasons why pods wait for GPUs cannot be written to them: the ServiceAccount may not {0}; apply the component "
    "deploy/components/explain-on-pods, or set explainOnPods.enabled of the Helm chart"
)
"""A note and a log line; {0} is the missing right, `patch pods/status`."""

_REFUSED_BY_RBAC = re.compile(r'\S+( "[^"]*")? is forbidden: User "[^"]*" cannot ')
_POD = RESOURCES["Pod"]
_WRITES_PER_SECOND = 25.0
_REASON, _ACTION, _CONTROLLER = "GPUWaiting", "Explain", "gpu-admission.io"
_REST_SECONDS = 60.0
"""After a failed write to a pod: a webhook or a policy of its namespace may refuse all of them."""
_LONGEST_POD_NAME = 230
"""Characters of a pod's name in the name of an event, which has at most 253."""


class RightsError(Exception):
    """RBAC does not allow a write; the text is `MISSING_RIGHTS`."""


@dataclass(frozen=True, slots=True)
class PodId:
    """A pod, also one that no longer exists."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PodWrite:
    """The writes that are due for one pod."""

    pod: PodId
    condition: ConditionStep | None
    event: EventStep | None = None
    result: WaitingResult | None = None
    """With SET, CREATE and RENEW."""
    is_new: bool = False
    """True if the pod does not have the condition yet."""
    last: float = 0.0
    """Seconds of the last condition that was set; 0 before the first."""


@dataclass(slots=True)
class WaitingWriter:
    """Writes, and remembers what was written to which pod."""

    client: APIClient
    metrics: WaitingMetrics
    identity: str
    """The name of this replica, in events."""
    clockwork: Clockwork = field(default_factory=Clockwork)
    _written: dict[str, tuple[PodId, WrittenToPod]] = field(default_factory=dict, init=False)
    _failed: dict[str, float] = field(default_factory=dict, init=False)
    """Seconds of the last failed write to a pod, by its uid."""

    def written_to(self, uid: str) -> WrittenToPod:
        """The last writes to a pod."""
        return self._written[uid][1] if uid in self._written else NOTHING_WRITTEN

    def rests(self, pod: PodId) -> bool:
        """True if a write to the pod has failed a moment ago."""
        failed = self._failed.get(pod.uid)
        return failed is not None and self.clockwork.clock() - failed < _REST_SECONDS

    def note_known(self, pod: PodId) -> None:
        """Record that another leader wrote the condition and an event."""
        self._written[pod.uid] = (pod, WrittenToPod(has_condition=True, known_since=self.clockwork.clock()))

    def drop_all_except(self, uids: Iterable[str]) -> list[PodId]:
        """Forget all other pods; returns those that still had a condition."""
        kept = {*uids}
        self._failed = {uid: failed for uid, failed in self._failed.items() if uid in kept}
        gone = [uid for uid in self._written if uid not in kept]
        dropped = [self._written.pop(uid) for uid in gone]
        return [pod for pod, written in dropped if written.has_condition]

    async def write(self, due: PodWrite) -> None:
        """Write what is due for one pod; a pod that is gone is skipped, and one whose write fails rests.

        Raises:
            RightsError: RBAC does not allow it.
            ClusterError: The API server refused, or did not answer.
        """
        try:
            await self._write(due)
        except APIError:
            self._failed[due.pod.uid] = self.clockwork.clock()
            raise

    async def _write(self, due: PodWrite) -> None:
        if due.condition is ConditionStep.REMOVE:
            await self._remove(due.pod)
        elif due.result is not None:
            if due.condition is ConditionStep.SET and not await self._set(due.pod, due.result, is_new=due.is_new):
                return
            if due.event is EventStep.CREATE:
                await self._create_event(due.pod, due.result)
            elif due.event is EventStep.RENEW:
                await self._renew_event(due.pod, due.result)

    async def _set(self, pod: PodId, result: WaitingResult, *, is_new: bool) -> bool:
        condition = {"type": SCHEDULABLE, "status": "False", "reason": result.reason, "message": result.message}
        since = {"lastTransitionTime": rfc3339(self.clockwork.now())} if is_new else {}
        call = self._patch_condition(pod, {**condition, **since})
        is_set = await self._send(call, "condition_set", "patch pods/status")
        self._note(pod, set_at=self.clockwork.clock(), has_condition=is_set)
        return is_set

    async def _remove(self, pod: PodId) -> None:
        directive = {"$patch": "delete", "type": SCHEDULABLE}
        await self._send(self._patch_condition(pod, directive), "condition_removed", "patch pods/status")
        self._note(pod, has_condition=False, event=None)

    def _patch_condition(self, pod: PodId, condition: Object) -> Awaitable[Any]:
        """The uid is a precondition, so that a new pod with the same name is not changed."""
        body = {"metadata": {"uid": pod.uid}, "status": {"conditions": [condition]}}
        path = _POD.path(pod.namespace, pod.name, "status")
        return self.client.patch(path, body, FIELD_MANAGER, content_type=STRATEGIC_PATCH)

    async def _create_event(self, pod: PodId, result: WaitingResult) -> None:
        now = self.clockwork.now()
        event = _event(pod, result, self.identity, now)
        call = self.client.post(NEW_EVENT.path(pod.namespace), event, FIELD_MANAGER)
        await self._send(call, "event_created", "create events.events.k8s.io")
        seconds = self.clockwork.clock()
        self._note(pod, event=WrittenEvent(event["metadata"]["name"], result, seconds, seconds))

    async def _renew_event(self, pod: PodId, result: WaitingResult) -> None:
        last = self.written_to(pod.uid).event
        if last is None:
            return
        renewed = replace(last, renewed=self.clockwork.clock(), count=last.count + 1)
        series = {"count": renewed.count, "lastObservedTime": micro_time(self.clockwork.now())}
        call = self.client.patch(NEW_EVENT.path(pod.namespace, last.name), {"series": series}, FIELD_MANAGER)
        if await self._send(call, "event_renewed", "patch events.events.k8s.io"):
            self._note(pod, event=renewed)
        else:
            await self._create_event(pod, result)

    def _note(self, pod: PodId, **changes: Any) -> None:
        self._written[pod.uid] = (pod, replace(self.written_to(pod.uid), **changes))

    async def _send(self, call: Awaitable[Any], write: str, right: str) -> bool:
        """Pause and send a write; returns False if its object is gone, or admission refuses it."""
        await self.clockwork.sleep(1 / _WRITES_PER_SECOND)
        try:
            await call
        except APIError as error:
            self.metrics.count_write("failed")
            # A refusal by RBAC, and not by admission or because a namespace is being deleted. Webhooks and policies choose
            # the words of their refusals, which follow other ones.
            if error.is_forbidden and _REFUSED_BY_RBAC.match(error.message) is not None:
                raise RightsError(MISSING_RIGHTS.format(right)) from error
            if not (error.is_not_found or error.is_conflict or error.is_forbidden):
                raise
            return False
        self.metrics.count_write(write)
        return True


def _event(pod: PodId, result: WaitingResult, identity: str, now: datetime) -> Object:
    return {
        "apiVersion": NEW_EVENT.api_version,
        "kind": NEW_EVENT.kind,
        "metadata": {
            "name": f"{pod.name[:_LONGEST_POD_NAME].rstrip('.-')}.{round(now.timestamp() * 1e6):x}",
            "namespace": pod.namespace,
        },
        "eventTime": micro_time(now),
        "reportingController": _CONTROLLER,
        "reportingInstance": identity[:128],
        "action": _ACTION,
        "reason": _REASON,
        "regarding": {
            "apiVersion": _POD.api_version,
            "kind": _POD.kind,
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        },
        "type": "Warning",
        "note": result.message,
    }


_logger = logging.getLogger("gpu_admission.controllers")

_ROUND_SECONDS = 20.0
"""For all explanations of a round, pauses for reviews included."""
_EXPLANATION_SECONDS = 10.0
"""For one explanation; a longer one counts as unknown."""
_COUNTING_SECONDS = 5.0
"""For all explanations of a round that writes nothing."""


class PodAnswer(NamedTuple):
    """A pod, and what its condition should say; None if it should have none."""

    state: PodState
    result: WaitingResult | None


@dataclass(frozen=True, slots=True)
class WaitingAnswers:
    """The results of one round."""

    answers: Sequence[PodAnswer] = ()
    """Of pods that wait for GPUs or have our condition, without those that were postponed."""
    postponed: Sequence[PodState] = ()
    counts: Mapping[WaitReason, int] = field(default_factory=Counter)
    """The number of pods that wait for GPUs, by reason; postponed ones by their last reason."""

    @property
    def conditions(self) -> int:
        """The number of pods that have our condition."""
        states = (*(each.state for each in self.answers), *self.postponed)
        return sum(state.written is not None for state in states)


def withdrawal(states: Iterable[PodState]) -> WaitingAnswers:
    """The answers that remove all conditions."""
    return WaitingAnswers([PodAnswer(state, None) for state in states if state.written is not None])


class _TooLongError(Exception):
    """One explanation takes too long."""


@dataclass(slots=True)
class WaitingExplainer:
    """Explains waiting pods in a thread; pods that were explained longest ago come first."""

    view: ClusterView
    clock: Callable[[], float]
    """Monotonic seconds."""
    round_seconds: float = _ROUND_SECONDS
    _explained: dict[str, tuple[float, WaitReason]] = field(default_factory=dict, init=False)
    """When pods of a template were explained last, and why they waited then, by their key."""
    _defects: set[str] = field(default_factory=set, init=False)
    """The keys of explanations that failed."""

    def answers(
        self, states: Sequence[PodState], settings: GPUAdmissionPolicy, now: datetime, most_seconds: float = inf
    ) -> WaitingAnswers:
        """Explain all waiting pods.

        Args:
            states: The pods that wait or have our condition.
            settings: The administrator's settings.
            now: The time of day.
            most_seconds: The time for all explanations, if it is less than usual.
        """
        ends = self.clock() + min(self.round_seconds, most_seconds)
        answers = [PodAnswer(state, None) for state in states if not state.is_pending]
        waiting = [state for state in states if is_waiting(state, now)]
        if any(self.view.list(kind) is UNKNOWN for kind in READ_FROM):
            counts = Counter({WaitReason.UNKNOWN: len(waiting)})
            return WaitingAnswers([*answers, *(PodAnswer(state, None) for state in waiting)], (), counts)
        groups = self._groups(waiting, settings)
        explained: dict[str, tuple[float, WaitReason]] = {}
        postponed: list[PodState] = []
        counts = unscheduled_counts(self.view, now)
        never = 0.0, WaitReason.UNKNOWN
        for key in sorted(groups, key=lambda key: self._explained.get(key, never)[0]):
            question, alike = groups[key]
            if self.clock() >= ends:
                postponed += alike
                explained[key] = self._explained.get(key, never)
                counts[explained[key][1]] += len(alike)
                continue
            began = self.clock()
            theirs, reason = self._answers_of(key, question, alike, settings)
            answers += theirs
            explained[key] = began, reason or WaitReason.UNKNOWN
            if reason is not None:
                counts[reason] += len(alike)
        self._explained = explained
        self._defects &= groups.keys()
        return WaitingAnswers(answers, postponed, counts)

    def _groups(
        self, waiting: Iterable[PodState], settings: GPUAdmissionPolicy
    ) -> dict[str, tuple[Question, list[PodState]]]:
        """The pods with one explanation and its question, by their key."""
        groups: dict[str, tuple[Question, list[PodState]]] = {}
        for state in waiting:
            check_cancelled()
            (question,) = questions(state.pod, state.namespace, self.view, settings, found=True)
            groups.setdefault(alike_key(question), (question, []))[1].append(state)
        return groups

    def _answers_of(
        self, key: str, question: Question, alike: Sequence[PodState], settings: GPUAdmissionPolicy
    ) -> tuple[list[PodAnswer], WaitReason | None]:
        """The answers for pods with one explanation, and why they wait; None if they do not wait for GPUs."""
        pod, namespace = alike[0].pod, alike[0].namespace
        if not any(gpu_requests(pod, namespace, self.view)):
            return [PodAnswer(state, None) for state in alike], None
        ends = self.clock() + _EXPLANATION_SECONDS

        def check_time() -> None:
            if self.clock() >= ends:
                raise _TooLongError

        audience = Audience(namespace, sees_nodes=False)
        try:
            with bounded_by(Work(check=check_time)):
                explanation = explain(for_all_alike(question), self.view, settings, audience=audience)
        except _TooLongError:
            return [PodAnswer(state, None) for state in alike], WaitReason.UNKNOWN
        except Exception:
            check_cancelled()
            # A defect that one pod meets must not keep the reasons from all others.
            if key not in self._defects:
                _logger.exception("the explanation of pod %s/%s failed", namespace, alike[0].name)
                self._defects.add(key)
            return [PodAnswer(state, None) for state in alike], WaitReason.UNKNOWN
        scheduler = str(question.pod.spec.get("schedulerName") or "") if question.pod is not None else ""
        result = waiting_result(explanation, scheduler)
        # The scheduler must have rejected the pod too, or not try it.
        is_certain = result is not None and result.is_before_scheduling
        found = [PodAnswer(state, result if is_certain or state.is_rejected else None) for state in alike]
        return found, wait_cause(explanation, len(alike)).reason


_COMPUTE_SECONDS = 120.0
"""The limit for the thread. Explanations have a shorter limit of their own; reading 5,000 pods takes a second."""
_IDLE_SECONDS = 60.0
"""While the setting is off, the interval of checks for conditions to remove, and of counts; while there are conditions, every
round removes some."""
_MOST_FAILURES = 10
"""Failed writes after which a round ends, because they are not due to single pods."""
_WRITE_SECONDS = 15.0
"""The limit for the writes of a round. The next round computes the others again, so that no outdated text is written."""


@dataclass(slots=True)
class WaitingRound:
    """Explains and counts waiting pods, and writes the results; removes them if the setting is off."""

    view: ClusterView
    settings: Callable[[], GPUAdmissionPolicy]
    """Returns the administrator's current settings."""
    explainer: WaitingExplainer
    writer: WaitingWriter
    metrics: WaitingMetrics
    clockwork: Clockwork
    missing_pods: Callable[[], Counter[WaitReason]] = Counter
    """Returns the number of pods that workloads lack, by reason; called in a thread."""
    _note: str = field(default="", init=False)
    _next_withdrawal: float = field(default=0.0, init=False)
    _next_count: float = field(default=0.0, init=False)
    _counts: Mapping[WaitReason, int] = field(default_factory=Counter, init=False)
    """Of the last round."""

    def notes(self) -> list[str]:
        """A note if RBAC does not allow the writes."""
        return [self._note] if self._note else []

    def forget(self) -> None:
        """Drop the metrics and the note, because another replica leads now."""
        self.metrics.forget()
        self.writer.drop_all_except(())
        self._note = ""

    async def round(self) -> None:
        """Do everything once, within the limits for time and writes.

        Raises:
            IncompleteRound: RBAC does not allow a write.
            ClusterError: The API server refused a write, or did not answer.
        """
        settings, now = self.settings(), self.clockwork.clock()
        if not settings.explain.on_pods and now < self._next_withdrawal:
            return
        self._next_withdrawal = 0.0 if settings.explain.on_pods else now + _IDLE_SECONDS
        try:
            answers, due = await run_spread(partial(self._plan, settings), _COMPUTE_SECONDS)
            missing = await run_spread(self.missing_pods, _COMPUTE_SECONDS)
        except TimeoutError as error:
            raise IncompleteRound(f"pods that wait were not explained within {_COMPUTE_SECONDS:g} seconds") from error
        if answers is not None:
            self.metrics.show(Counter(answers.counts) + missing, answers.conditions)
            self._counts = answers.counts
        if due:
            self._next_withdrawal = 0.0
        try:
            await self._write(due)
        except RightsError as error:
            self._note = str(error)
            raise IncompleteRound(self._note) from error
        if due or not settings.explain.on_pods:
            self._note = ""

    def _plan(self, settings: GPUAdmissionPolicy) -> tuple[WaitingAnswers | None, list[PodWrite]]:
        """The answers, None if pods are unknown, and the writes, the most urgent first; runs in a thread."""
        found = self.view.derive_each("Pod", pod_state)
        if found is UNKNOWN:
            return None, []
        states = [state for state in found if state is not None]
        if settings.explain.on_pods:
            answers = self.explainer.answers(states, settings, self.clockwork.now())
        else:
            answers = replace(withdrawal(states), counts=self._counts_by_reason(states, settings))
        # These pods ended, or were bound before the view showed their condition.
        gone = self.writer.drop_all_except(state.uid for state in states)
        due = [PodWrite(pod, ConditionStep.REMOVE) for pod in gone]
        for each in answers.answers:
            check_cancelled()
            if (write := self._due_for(each)) is not None:
                due.append(write)
        # Removals first, then pods without a condition, then those whose condition is the oldest.
        due = [each for each in due if not self.writer.rests(each.pod)]
        due.sort(key=lambda each: (each.condition is not ConditionStep.REMOVE, not each.is_new, each.last))
        return answers, due

    def _counts_by_reason(self, states: Sequence[PodState], settings: GPUAdmissionPolicy) -> Mapping[WaitReason, int]:
        """The pods that wait by reason, counted anew once a minute, while nothing is written to pods."""
        now = self.clockwork.clock()
        if now < self._next_count:
            return self._counts
        self._next_count = now + _IDLE_SECONDS
        return self.explainer.answers(states, settings, self.clockwork.now(), _COUNTING_SECONDS).counts

    def _due_for(self, answer: PodAnswer) -> PodWrite | None:
        state, result = answer
        pod, now = PodId(state.namespace, state.name, state.uid), self.clockwork.clock()
        before = self.writer.written_to(pod.uid)
        step = condition_step(state, result, before, now)
        if result is None:
            return None if step is None else PodWrite(pod, step)
        is_written = state.written == (result.reason, result.message)
        if is_written and before.is_nothing:
            self.writer.note_known(pod)
            return None
        event = event_step(result, before, now) if step is not None or is_written else None
        if step is None and event is None:
            return None
        return PodWrite(pod, step, event, result, is_new=state.written is None, last=before.set_at or 0.0)

    async def _write(self, due: Iterable[PodWrite]) -> None:
        """Write what is due; a pod whose write fails does not keep the reasons from the others.

        Raises:
            APIError: The last write that failed.
        """
        ends = self.clockwork.clock() + _WRITE_SECONDS
        failures: list[APIError] = []
        for each in due:
            if self.clockwork.clock() >= ends or len(failures) >= _MOST_FAILURES:
                break
            if each.condition is ConditionStep.REMOVE or self._still_waits(each.pod):
                try:
                    await self.writer.write(each)
                except APIError as error:
                    failures.append(error)
        if failures:
            raise failures[-1]

    def _still_waits(self, pod: PodId) -> bool:
        """True if the pod has not been bound or deleted since it was explained."""
        document = self.view.get("Pod", pod.name, pod.namespace)
        state = pod_state(document) if isinstance(document, dict) else None
        return state is not None and state.uid == pod.uid and state.is_pending
