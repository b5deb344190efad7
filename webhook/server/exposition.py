"""Expositions: the metrics of one moment, in the text format of Prometheus or as OpenMetrics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from prometheus_client import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from prometheus_client.metrics_core import Metric

__all__ = ["Exposition", "accepts_open_metrics"]


@dataclass(frozen=True, slots=True)
class Exposition(Collector):
    """The metrics of one moment, which can be encoded in a thread."""

    families: tuple[Metric, ...]
    is_open_metrics: bool
    """False for the text format of Prometheus."""

    def collect(self) -> Iterable[Metric]:
        """The metrics of that moment."""
        return self.families

    @property
    def content_type(self) -> str:
        """The media type of the format."""
        return openmetrics.CONTENT_TYPE_LATEST if self.is_open_metrics else CONTENT_TYPE_LATEST

    def text(self) -> bytes:
        """The metrics in their format."""
        encode: Callable[[Collector], bytes] = openmetrics.generate_latest if self.is_open_metrics else generate_latest
        return encode(self)


def accepts_open_metrics(accepted: str) -> bool:
    """True if a header `Accept` names OpenMetrics 1.0.0.

    The client's own negotiation raises an error for a malformed version, and claims any later version.
    Source: https://prometheus.io/docs/instrumenting/content_negotiation.
    """
    for choice in accepted.split(","):
        media_type, *parameters = (each.strip() for each in choice.split(";"))
        named = dict(each.partition("=")[::2] for each in parameters)
        if media_type == "application/openmetrics-text" and named.get("version", "1.0.0") == "1.0.0":
            return named.get("q") not in ("0", "0.0", "0.00", "0.000")
    return False
