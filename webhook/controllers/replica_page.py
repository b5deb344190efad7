"""The page of a replica: its calls, and the audits that it shows."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from webhook.cluster.answers import ClusterError
from webhook.cluster.clockwork import Clockwork
from webhook.controllers.audit_round import AUDIT_SECONDS, AuditRound
from webhook.server.ui_calls import create_ui_calls

if TYPE_CHECKING:
    from typing import NoReturn

    from policies.analyses.audit import AuditReport
    from webhook.cluster.client import APIClient
    from webhook.cluster.live import LiveSettings
    from webhook.cluster.sync import Sync
    from webhook.server.questions import Questions


_LOOK_SECONDS = 2.0
"""Between two checks whether an audit is due."""

_RETRY_SECONDS = 60.0
"""After an audit that failed."""

_logger = logging.getLogger("gpu_admission.replica")


class Page:
    """Shows the audits of a replica that leads; another one audits while reports are shown."""

    def __init__(
        self,
        client: APIClient,
        sync: Sync,
        settings: LiveSettings,
        leader: AuditRound,
        questions: Questions,
        clockwork: Clockwork = Clockwork(),  # noqa: B008 - it is immutable
    ) -> None:
        """Prepare.

        Args:
            client: Lists the objects that an audit needs and no cache keeps.
            sync: Keeps the view of the cluster.
            settings: The administrator's current settings.
            leader: Has a report while this replica leads.
            questions: Answers questions; its gate admits callers.
            clockwork: Time and pauses.
        """
        self._leader = leader
        self._own = AuditRound(client, sync.view, settings, clockwork)
        self._clockwork = clockwork
        self._next_audit = float("-inf")
        self.calls = create_ui_calls(sync.view, settings, self._last_audit, questions)

    async def run(self) -> NoReturn:
        """Audit when it is due, until cancelled."""
        while True:
            await self._clockwork.sleep(_LOOK_SECONDS)
            await self._audit_if_due()

    def _last_audit(self) -> AuditReport | None:
        return self._leader.report or self._own.report

    async def _audit_if_due(self) -> None:
        clock = self._clockwork.clock
        if self._leader.report is not None:
            self._own.forget()
            return
        if clock() < self._next_audit:
            return
        if not len(self.calls.streams):
            self._own.forget()
            return
        pause = _RETRY_SECONDS
        try:
            await self._own.round()
            pause = AUDIT_SECONDS
        except (ClusterError, TimeoutError) as error:
            _logger.warning("the audit for the page failed: %s", error)
        except Exception:
            # A defect that one object of the cluster meets must not end the audits for good.
            _logger.exception("the audit for the page failed")
        self.calls.streams.reports.outdate()
        self._next_audit = clock() + pause
