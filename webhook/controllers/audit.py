"""The audit by the leader: again and again, aside from the reviews."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, TypeVar

from policies.audit import Survey, audit
from webhook.cluster.clockwork import Clockwork, rfc3339
from webhook.controllers.audit_metrics import AuditMetrics
from webhook.controllers.surveying import survey_cluster
from webhook.server.aside import run_aside
from webhook.server.pacing import Pacer, spread

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from policies.audit import AuditReport
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from webhook.cluster.client import APIClient

__all__ = ["AuditRound"]

T = TypeVar("T")

_logger = logging.getLogger("gpu_admission.controllers")

_SECONDS = 600.0
"""For how long one part of a round may compute. A page takes milliseconds, the audit of a large cluster seconds."""


class AuditRound:
    """Audits the cluster, and keeps what was found last for metrics and the status of the settings."""

    def __init__(
        self,
        client: APIClient,
        view: ClusterView,
        settings: Callable[[], GPUAdmissionPolicy],
        *,
        clockwork: Clockwork = Clockwork(),  # noqa: B008 - it is immutable
    ) -> None:
        """Args: who lists, what to look at, the choices of the administrator as they are now, time."""
        self._client = client
        self._view = view
        self._settings = settings
        self._clockwork = clockwork
        self._last: tuple[AuditReport, datetime] | None = None

    @property
    def metrics(self) -> AuditMetrics:
        """What to register with the metrics of the server."""
        return AuditMetrics(lambda: self._last)

    @property
    def report(self) -> AuditReport | None:
        """What the last round found; None before the first."""
        return None if self._last is None else self._last[0]

    def summary(self) -> dict[str, Any] | None:
        """What the last round found, as `status.audit` of the GPUAdmissionPolicy has it; None before the first."""
        if self._last is None:
            return None
        report, now = self._last
        return {"time": rfc3339(now), "summary": report.summary, "counts": report.counts}

    def forget(self) -> None:
        """Forget what was found: another replica leads now, and tells what it finds."""
        self._last = None

    async def round(self) -> None:
        """Audit the cluster once.

        Raises:
            ClusterError: The API server did not answer, or stopped within a list.
        """
        settings = self._settings()
        survey = Survey(self._view, settings)
        pacer = Pacer()
        try:
            await survey_cluster(self._client, survey, lambda page: _aside(lambda: survey.add(page, pacer), pacer))
            report = await _aside(lambda: audit(self._view, settings, survey, pacer), pacer)
        finally:
            pacer.stop()
        self._last = report, self._clockwork.now()
        _logger.info("audited: %s", report.summary)


async def _aside(work: Callable[[], T], pacer: Pacer) -> T:
    return await run_aside(lambda: spread(work, pacer), _SECONDS, lambda: None)
