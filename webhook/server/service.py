"""The service for a cluster in manifests; its answers have no effects."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from certs import BadKeyPair
from policies.analyses.audit import Survey, audit
from policies.kubernetes.view import UNKNOWN
from webhook.server.admission import Admission
from webhook.server.app import Calls
from webhook.server.caller_limits import Callers
from webhook.server.config import CannotServe
from webhook.server.driver import warm_up
from webhook.server.explain_gate import NamedClients
from webhook.server.listeners import Listeners, certificate_of, client_ca_of
from webhook.server.metrics import Metrics
from webhook.server.probes import Readiness
from webhook.server.questions import ExplainCalls, Explainer, Questions
from webhook.server.tls import BadClientCA

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.analyses.audit import AuditReport
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.server.config import ServerConfig
    from webhook.server.listeners import Ready
    from webhook.server.ui_calls import UICalls


_logger = logging.getLogger("gpu_admission.service")


class Service:
    """Answers reviews of an unchanging cluster, with unchanging settings."""

    def __init__(
        self,
        config: ServerConfig,
        view: ClusterView,
        settings: GPUAdmissionPolicy,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Load the certificates; nothing listens yet.

        Raises:
            CannotServe: The certificate cannot be used, or a file cannot be read or written.
        """
        try:
            self._certificate = certificate_of(config.certificate, client_ca_of(config), now=now)
        except (BadKeyPair, BadClientCA) as error:
            raise CannotServe(str(error)) from error
        callers = Callers(config.clients.names if config.clients else None)
        self._view, self._settings = view, settings
        self._audited: AuditReport | None = None
        metrics = Metrics()
        metrics.watch_certificate(self._certificate.expiry)
        admission = Admission(view, lambda: settings, metrics)
        self._calls = Calls(admission, callers)
        explainer, gate = Explainer(view, lambda: settings), NamedClients(callers.allowed)
        questions = Questions(explainer, gate, metrics)
        self._explain_calls = ExplainCalls(questions, self._calls.traffic)
        self._ui_calls: UICalls | None = None
        if config.ui_port is not None:
            from webhook.server.ui_calls import create_ui_calls

            self._ui_calls = create_ui_calls(view, lambda: settings, self._audit, questions)
        self._listeners = Listeners(config, Readiness([self._certificate.problem], [callers.notes]), metrics)

    def _audit(self) -> AuditReport:
        """The audit of the cluster, which does not change; made when it is needed."""
        if self._audited is None:
            survey = Survey(self._view, self._settings)
            for _, kind in survey.kinds:
                listed = self._view.list(kind)
                if listed is UNKNOWN:
                    survey.miss(kind)
                else:
                    survey.add(listed)
            self._audited = audit(self._view, self._settings, survey)
        return self._audited

    async def start(self) -> Ready:
        """Listen; answer probes from the beginning, and reviews from the end.

        Raises:
            CannotServe: A port is in use or not allowed.
        """
        try:
            await self._listeners.answer_probes()
            await asyncio.to_thread(warm_up, self._view, self._settings)
            return await self._listeners.answer_calls(
                self._calls, self._explain_calls, self._ui_calls, self._certificate
            )
        except CannotServe:
            await self.close()
            raise

    async def drain(self, hurry: asyncio.Event) -> None:
        """Close connections after their answers; return when the last call is answered and all is closed."""
        await self._listeners.drain(hurry)
        await self.close()
        _logger.info("stopped")

    async def close(self) -> None:
        """Close everything now."""
        await self._listeners.close()
