"""Explains all pods that wait for GPUs, pods of one template once, within a time limit."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from policies.explanation import explain
from policies.fleet import gpu_requests
from policies.outcome import READ_FROM, Audience, Feasibility, questions
from policies.view import UNKNOWN
from policies.waiting import alike_key, for_all_alike, is_waiting, waiting_result
from policies.work import Work, bounded_by, check_cancelled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from policies.outcome import Question
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from policies.waiting import PodState, WaitingResult

__all__ = ["POSTPONED", "PodAnswer", "WaitingAnswers", "WaitingExplainer", "withdrawal"]

_logger = logging.getLogger("gpu_admission.controllers")

POSTPONED = "postponed"
"""Counted instead of a verdict for pods that a round had no time for; they are first in the next round."""

_ROUND_SECONDS = 20.0
"""For all explanations of a round, pauses for reviews included."""
_EXPLANATION_SECONDS = 10.0
"""For one explanation; a longer one counts as unknown."""


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
    counts: Mapping[str, int] = field(default_factory=Counter)
    """The number of pods that wait for GPUs, by verdict, or `POSTPONED`."""

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
    _explained: dict[str, float] = field(default_factory=dict, init=False)
    """When pods of a template were explained last, by their key."""
    _defects: set[str] = field(default_factory=set, init=False)
    """The keys of explanations that failed."""

    def answers(
        self,
        states: Sequence[PodState],
        settings: GPUAdmissionPolicy,
        now: datetime,
    ) -> WaitingAnswers:
        """Explain all waiting pods.

        Args:
            states: The pods that wait or have our condition.
            settings: The administrator's settings.
            now: The time of day.
        """
        ends = self.clock() + self.round_seconds
        answers = [PodAnswer(state, None) for state in states if not state.is_pending]
        waiting = [state for state in states if is_waiting(state, now)]
        if any(self.view.list(kind) is UNKNOWN for kind in READ_FROM):
            return WaitingAnswers(
                [*answers, *(PodAnswer(state, None) for state in waiting)], (), _counts(Feasibility.UNKNOWN, waiting)
            )
        groups = self._groups(waiting, settings)
        explained: dict[str, float] = {}
        postponed: list[PodState] = []
        counts: Counter[str] = Counter()
        for key in sorted(groups, key=lambda key: self._explained.get(key, 0.0)):
            question, alike = groups[key]
            if self.clock() >= ends:
                postponed += alike
                explained[key] = self._explained.get(key, 0.0)
                continue
            explained[key] = self.clock()
            theirs, verdict = self._answers_of(key, question, alike, settings)
            answers += theirs
            counts.update(_counts(verdict, alike) if verdict else {})
        self._explained = explained
        self._defects &= groups.keys()
        counts.update(_counts(POSTPONED, postponed))
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
        self,
        key: str,
        question: Question,
        alike: Sequence[PodState],
        settings: GPUAdmissionPolicy,
    ) -> tuple[list[PodAnswer], str]:
        """The answers for pods with one explanation, and its verdict; empty if they do not wait for GPUs."""
        pod, namespace = alike[0].pod, alike[0].namespace
        if not any(gpu_requests(pod, namespace, self.view)):
            return [PodAnswer(state, None) for state in alike], ""
        ends = self.clock() + _EXPLANATION_SECONDS

        def check_time() -> None:
            if self.clock() >= ends:
                raise _TooLongError

        audience = Audience(namespace, sees_nodes=False)
        try:
            with bounded_by(Work(check=check_time)):
                explanation = explain(for_all_alike(question), self.view, settings, audience=audience)
        except _TooLongError:
            return [PodAnswer(state, None) for state in alike], Feasibility.UNKNOWN
        except Exception:
            check_cancelled()
            # A defect that one pod meets must not keep the reasons from all others.
            if key not in self._defects:
                _logger.exception("the explanation of pod %s/%s failed", namespace, alike[0].name)
                self._defects.add(key)
            return [PodAnswer(state, None) for state in alike], Feasibility.UNKNOWN
        scheduler = str(question.pod.spec.get("schedulerName") or "") if question.pod is not None else ""
        result = waiting_result(explanation, scheduler)
        return [PodAnswer(state, _confirmed_result(state, result)) for state in alike], explanation.verdict


def _confirmed_result(state: PodState, result: WaitingResult | None) -> WaitingResult | None:
    """The result if the scheduler rejected the pod too, or does not try it; None otherwise."""
    return result if result is not None and (state.is_rejected or result.is_before_scheduling) else None


def _counts(verdict: str, pods: Sequence[PodState]) -> Counter[str]:
    return Counter({str(verdict): len(pods)} if pods else {})
