"""Counts of webhook calls, in the metrics that an API server has for them.

Source: k8s.io/apiserver pkg/admission/metrics/metrics.go; names, labels and buckets were seen on Kubernetes 1.36.2. Labels of a
call say `validating`, and those of matchConditions `validate`, as there.
"""

from __future__ import annotations

import time
from collections import defaultdict
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

from webhook.sandbox.admission.calls import CallFailed
from webhook.sandbox.attempt import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from webhook.sandbox.admission.matching import Hook
    from webhook.sandbox.attempt import Attempt

__all__ = ["CallCounts", "Denied", "Phase"]

Phase = Literal["admit", "validating"]
"""Mutation or validation."""
_Sample = tuple[str, tuple[tuple[str, str], ...]]

_WEBHOOK, _CONDITION = "apiserver_admission_webhook_", "apiserver_admission_match_condition_"
_DURATION = f"{_WEBHOOK}admission_duration_seconds"
_TYPES = {
    _DURATION: "histogram",
    f"{_WEBHOOK}fail_open_count": "counter",
    f"{_WEBHOOK}rejection_count": "counter",
    f"{_WEBHOOK}request_total": "counter",
    f"{_CONDITION}exclusions_total": "counter",
    f"{_CONDITION}evaluation_errors_total": "counter",
}
_BOUNDS = (0.005, 0.025, 0.1, 0.5, 1, 2.5, 10, 25)
"""Of the buckets, in seconds."""
_LARGEST_CODE = 600
_CONDITION_TYPES: dict[Phase, str] = {"admit": "admit", "validating": "validate"}


class Denied(Refused):
    """A webhook refuses the write, with a status of its own."""


class CallCounts:
    """Counts since the start of the server, by name of the webhook."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` returns seconds."""
        self._clock = clock
        self._counts: defaultdict[_Sample, float] = defaultdict(float)

    @contextmanager
    def count_call(self, hook: Hook, attempt: Attempt, phase: Phase) -> Iterator[None]:
        """Count a call and its outcome; exceptions pass through."""
        began = self._clock()
        try:
            yield
        except CallFailed as error:
            if hook.ignores_failures:
                self._add(f"{_WEBHOOK}fail_open_count", hook, phase, {})
            else:
                self._reject(hook, attempt, phase, "calling_webhook_error", error.code)
            self._finish(hook, attempt, phase, began, code=error.code, rejected=not hook.ignores_failures)
            raise
        except Refused as refused:
            code = int(refused.status["code"]) if isinstance(refused, Denied) else 0
            kind = "no_error" if isinstance(refused, Denied) else "apiserver_internal_error"
            self._reject(hook, attempt, phase, kind, code)
            self._finish(hook, attempt, phase, began, code=code, rejected=True)
            raise
        self._finish(hook, attempt, phase, began, code=200, rejected=False)

    def count_exclusion(self, hook: Hook, attempt: Attempt, phase: Phase) -> None:
        """Count a write that matchConditions exclude from a webhook."""
        self._add_condition("exclusions_total", hook, attempt, phase)

    def count_condition_error(self, hook: Hook, attempt: Attempt, phase: Phase) -> None:
        """Count a matchCondition that could not be evaluated."""
        self._add_condition("evaluation_errors_total", hook, attempt, phase)

    def text(self) -> str:
        """All counts in the text format of Prometheus."""
        lines = []
        for metric, kind in _TYPES.items():
            lines.append(f"# TYPE {metric} {kind}")
            lines += sorted(
                _line(name, labels, count) for (name, labels), count in self._counts.items() if name.startswith(metric)
            )
        return "".join(f"{line}\n" for line in lines)

    def _reject(self, hook: Hook, attempt: Attempt, phase: Phase, kind: str, code: int) -> None:
        labels = {"error_type": kind, "operation": attempt.operation, "rejection_code": _code_label(code)}
        self._add(f"{_WEBHOOK}rejection_count", hook, phase, labels)

    def _finish(self, hook: Hook, attempt: Attempt, phase: Phase, began: float, *, code: int, rejected: bool) -> None:
        took = self._clock() - began
        labels = {"operation": attempt.operation, "rejected": str(rejected).lower()}
        self._add(f"{_WEBHOOK}request_total", hook, phase, {"code": _code_label(code), **labels})
        for bound in _BOUNDS:
            self._add(f"{_DURATION}_bucket", hook, phase, {**labels, "le": f"{bound:g}"}, float(took <= bound))
        self._add(f"{_DURATION}_bucket", hook, phase, {**labels, "le": "+Inf"})
        self._add(f"{_DURATION}_sum", hook, phase, labels, took)
        self._add(f"{_DURATION}_count", hook, phase, labels)

    def _add_condition(self, name: str, hook: Hook, attempt: Attempt, phase: Phase) -> None:
        labels = {"kind": "webhook", "name": hook.name, "operation": attempt.operation, "type": _CONDITION_TYPES[phase]}
        self._counts[f"{_CONDITION}{name}", tuple(labels.items())] += 1

    def _add(self, metric: str, hook: Hook, phase: Phase, labels: Mapping[str, str], by: float = 1.0) -> None:
        everything = {"name": hook.name, "type": phase, **labels}
        self._counts[metric, tuple(sorted(everything.items()))] += by


def _code_label(code: int) -> str:
    return str(min(code, _LARGEST_CODE))


def _line(name: str, labels: tuple[tuple[str, str], ...], count: float) -> str:
    written = ",".join(f'{label}="{value}"' for label, value in labels)
    return f"{name}{{{written}}} {count:.15g}"
