"""Creates the metrics of gpu-admission in a registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

if TYPE_CHECKING:
    from collections.abc import Sequence

    from prometheus_client import CollectorRegistry

__all__ = ["MetricFactory"]


@dataclass(frozen=True, slots=True)
class MetricFactory:
    """Creates metrics whose names begin with `gpu_admission_`."""

    registry: CollectorRegistry

    def counter(self, name: str, meaning: str, *labels: str) -> Counter:
        """A counter; `_total` is appended to its name."""
        return Counter(f"gpu_admission_{name}_total", meaning, labels, registry=self.registry)

    def gauge(self, name: str, meaning: str, *labels: str) -> Gauge:
        """A gauge."""
        return Gauge(f"gpu_admission_{name}", meaning, labels, registry=self.registry)

    def histogram(self, name: str, meaning: str, buckets: Sequence[float], *labels: str) -> Histogram:
        """A histogram."""
        return Histogram(f"gpu_admission_{name}", meaning, labels, buckets=buckets, registry=self.registry)
