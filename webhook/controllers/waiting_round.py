"""Writes to pods why they wait for GPUs, if the settings say so."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from policies.view import UNKNOWN
from policies.waiting import ConditionStep, condition_step, event_step, pod_state
from policies.work import check_cancelled
from webhook.cluster.errors import APIError
from webhook.controllers.run import IncompleteRound
from webhook.controllers.waiting_answers import withdrawal
from webhook.controllers.waiting_writes import PodId, PodWrite, RightsError
from webhook.server.pacing import run_spread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from webhook.cluster.clockwork import Clockwork
    from webhook.controllers.metrics import WaitingMetrics
    from webhook.controllers.waiting_answers import PodAnswer, WaitingAnswers, WaitingExplainer
    from webhook.controllers.waiting_writes import WaitingWriter

__all__ = ["WaitingRound"]

_COMPUTE_SECONDS = 120.0
"""The limit for the thread. Explanations have a shorter limit of their own; reading 5,000 pods takes a second."""
_WITHDRAWAL_SECONDS = 60.0
"""While the setting is off, the interval of checks for conditions to remove; while there are some, every round removes some."""
_MOST_FAILURES = 10
"""Failed writes after which a round ends, because they are not due to single pods."""
_WRITE_SECONDS = 15.0
"""The limit for the writes of a round. The next round computes the others again, so that no outdated text is written."""


@dataclass(slots=True)
class WaitingRound:
    """Explains waiting pods and writes the results; removes them if the setting is off."""

    view: ClusterView
    settings: Callable[[], GPUAdmissionPolicy]
    """Returns the administrator's current settings."""
    explainer: WaitingExplainer
    writer: WaitingWriter
    metrics: WaitingMetrics
    clockwork: Clockwork
    _note: str = field(default="", init=False)
    _next_withdrawal: float = field(default=0.0, init=False)

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
        self._next_withdrawal = 0.0 if settings.explain.on_pods else now + _WITHDRAWAL_SECONDS
        try:
            answers, due = await run_spread(partial(self._plan, settings), _COMPUTE_SECONDS)
        except TimeoutError as error:
            raise IncompleteRound(f"pods that wait were not explained within {_COMPUTE_SECONDS:g} seconds") from error
        if answers is not None:
            self.metrics.show(answers.counts, answers.conditions)
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
            answers = withdrawal(states)
        # These pods ended, or were bound before the view showed their condition.
        gone = self.writer.drop_all_except(state.uid for state in states)
        due = [PodWrite(pod, ConditionStep.REMOVE) for pod in gone]
        for each in answers.answers:
            check_cancelled()
            if (write := self._due_for(each)) is not None:
                due.append(write)
        return answers, sorted((each for each in due if not self.writer.rests(each.pod)), key=_urgency)

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


def _urgency(write: PodWrite) -> tuple[bool, bool, float]:
    """Removals first, then pods without a condition, then those whose condition is the oldest."""
    return write.condition is not ConditionStep.REMOVE, not write.is_new, write.last
