"""Admission: from the body of a call to the body of its answer."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

import orjson

from policies.review import review
from webhook.server.admission_response import encode, encode_failure, encode_refused_template
from webhook.server.admission_review import decode
from webhook.server.deadlines import Deadline
from webhook.server.effects import RefusedTemplate
from webhook.server.logs import log_decision, log_failure, log_refused_template
from webhook.server.overlay import Overlay
from webhook.server.quotas import CHARGED

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.decision import Decision
    from policies.entries import Entry
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from webhook.server.effects import TemplateKeeper
    from webhook.server.metrics import Metrics
    from webhook.server.quotas import QuotaKeeper

__all__ = ["Admission"]


class Admission:
    """Answers the calls of the API server with what the policies decide.

    Whoever asks a question that can be understood gets an answer: where there is no decision, because a rule raised or
    the time is up, the entry's failure policy is the answer, and the log and the caller are told the same id.
    """

    def __init__(
        self,
        view: ClusterView,
        settings: Callable[[], GPUAdmissionPolicy],
        metrics: Metrics,
        *,
        templates: TemplateKeeper | None = None,
        quotas: QuotaKeeper | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            view: The cluster.
            settings: Gives the administrator's choices as they are now.
            metrics: Counts.
            templates: Creates what answers refer to; without it no template is created.
            quotas: Charges what is created; without it nothing is charged, and judged by what the view shows.
            clock: Tells seconds that never go back.
        """
        self._view = view
        self._settings = settings
        self._templates = templates
        self._quotas = quotas
        self._clock = clock
        self.metrics = metrics

    def deadline(self, timeout: str | None) -> Deadline:
        """Begin the deadline of a call with the `timeout` of its query.

        Raises:
            BadDuration: `timeout` is no duration.
        """
        return Deadline.start(self._clock, timeout)

    def answer(self, entry: Entry, body: bytes, deadline: Deadline) -> bytes:
        """Review what an AdmissionReview asks, and write the AdmissionReview that answers it.

        Raises:
            BadReview: The body is no AdmissionReview, so there is no uid to answer to.
        """
        request = decode(body, entry.name)
        try:
            return self._answered(entry, request, review(request, self._view, self._settings()), deadline)
        except Exception as error:  # noqa: BLE001 - whatever a rule stumbles over, its caller waits for an answer
            return self._failure(entry, request, deadline, "failed", error)

    async def act(self, entry: Entry, body: bytes, deadline: Deadline) -> bytes:
        """Answer like `answer`, once the templates exist that the answer refers to, or the quota is charged.

        Raises:
            BadReview: The body is no AdmissionReview, so there is no uid to answer to.
        """
        request = decode(body, entry.name)
        try:
            decision = await self._decided(request, self._settings(), deadline)
            return self._answered(entry, request, decision, deadline)
        except RefusedTemplate as refused:
            return self._refused(entry, request, deadline, refused)
        except TimeoutError as error:
            return self._failure(entry, request, deadline, "ran out of time", error)
        except Exception as error:  # noqa: BLE001 - as in `answer`
            return self._failure(entry, request, deadline, "failed", error)

    async def _decided(self, request: Request, settings: GPUAdmissionPolicy, deadline: Deadline) -> Decision:
        if self._quotas is not None and request.entry in CHARGED:
            return await self._quotas.decide(request, settings, deadline)
        return await self._effected(request, review(request, self._view, settings), settings, deadline)

    async def _effected(
        self, request: Request, decision: Decision, settings: GPUAdmissionPolicy, deadline: Deadline
    ) -> Decision:
        """The decision when its templates exist; another one where one of them turns out to be somebody else's."""
        if self._templates is None or request.dry_run or not decision.allowed or not decision.templates:
            return decision
        foreign = await self._templates.ensure(decision.templates, deadline)
        if not foreign:
            return decision
        seen = {("ResourceClaimTemplate", *key): stored for key, stored in foreign.items()}
        return review(request, Overlay(self._view, seen), settings)

    def _answered(self, entry: Entry, request: Request, decision: Decision, deadline: Deadline) -> bytes:
        answer = orjson.dumps(encode(decision, entry, request))
        # Reviewing holds the loop, so no timer could have interrupted it.
        if deadline.passed:
            return self._failure(entry, request, deadline, "ran out of time", None)
        self._record(entry, request, decision, deadline.elapsed)
        return answer

    def _failure(self, entry: Entry, request: Request, deadline: Deadline, what: str, error: Exception | None) -> bytes:
        identifier = secrets.token_hex(4)
        log_failure(entry, request, what, identifier, error)
        elapsed = deadline.elapsed
        self.metrics.count_answer(entry.name, "failed", elapsed)
        log_decision(entry, request, "failed", (), elapsed, failure=identifier)
        return orjson.dumps(encode_failure(entry, request, what, identifier))

    def _refused(self, entry: Entry, request: Request, deadline: Deadline, refused: RefusedTemplate) -> bytes:
        elapsed = deadline.elapsed
        log_refused_template(entry, request, refused.template.name, refused.error.message)
        self.metrics.count_answer(entry.name, "denied", elapsed)
        self.metrics.count_refused_conversion()
        log_decision(entry, request, "denied", (), elapsed)
        return orjson.dumps(encode_refused_template(request, refused))

    def _record(self, entry: Entry, request: Request, decision: Decision, elapsed: float) -> None:
        verdict = "denied" if not decision.allowed else "changed" if decision.patch else "allowed"
        self.metrics.count_answer(entry.name, verdict, elapsed)
        self.metrics.count_decision(entry.name, decision, dry_run=request.dry_run)
        log_decision(entry, request, verdict, [finding.rule for finding in decision.findings], elapsed)
