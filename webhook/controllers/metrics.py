"""Metrics of the controllers; they join those of the server on `/metrics`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from prometheus_client import CollectorRegistry

__all__ = ["ControllerMetrics"]

_BUCKETS = (0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)


class ControllerMetrics:
    """What controllers do. Labels take only values that the program itself chooses."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._leader = Gauge("gpu_admission_leader", "1 where this replica leads.", registry=registry)
        self._rounds = Counter(
            "gpu_admission_controller_rounds_total",
            "Rounds of the leader's tasks, by how they ended.",
            ["task", "outcome"],
            registry=registry,
        )
        self._duration = Histogram(
            "gpu_admission_controller_round_duration_seconds",
            "How long rounds of the leader's tasks took.",
            ["task"],
            buckets=_BUCKETS,
            registry=registry,
        )
        self._last = Gauge(
            "gpu_admission_controller_last_round_timestamp_seconds",
            "When a round of the leader's tasks was last done.",
            ["task"],
            registry=registry,
        )
        templates = Counter(
            "gpu_admission_template_upkeep_total",
            "ResourceClaimTemplates that the leader touched, by what was done.",
            ["action"],
            registry=registry,
        )
        self._templates = {
            action: templates.labels(action) for action in ("repaired", "marked", "unmarked", "deleted", "foreign")
        }

    def watch_leader(self, leading: Callable[[], bool]) -> None:
        """Show whether this replica leads, asked for at every scrape."""
        self._leader.set_function(leading)

    def count_round(self, task: str, outcome: str, seconds: float) -> None:
        """Count a round of a task: `done` or `failed`."""
        self._rounds.labels(task, outcome).inc()
        self._duration.labels(task).observe(seconds)

    def set_last(self, task: str, moment: datetime) -> None:
        """Note when a task was last done."""
        self._last.labels(task).set(moment.timestamp())

    def count_template(self, action: str) -> None:
        """Count a template that was `repaired`, `marked` or `unmarked` as unused, `deleted`, or found `foreign`."""
        self._templates[action].inc()
