"""Admission: from the body of a call to the body of its answer."""

from __future__ import annotations

import secrets
import time
from typing import TYPE_CHECKING

import orjson

from policies.review import review
from webhook.server.admission_response import encode, encode_failure
from webhook.server.admission_review import decode
from webhook.server.deadlines import Deadline
from webhook.server.logs import log_decision, log_failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.decision import Decision
    from policies.entries import Entry
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from webhook.server.metrics import Metrics

__all__ = ["Admission"]


class Admission:
    """Answers the calls of the API server with what the policies decide.

    Whoever asks a question that can be understood gets an answer: where there is no decision, because a rule raised or
    the time is up, the entry's failure policy is the answer, and the log and the caller are told the same id.
    """

    def __init__(
        self,
        view: ClusterView,
        settings: GPUAdmissionPolicy,
        metrics: Metrics,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._view = view
        self._settings = settings
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
            decision = review(request, self._view, self._settings)
            answer = orjson.dumps(encode(decision, entry, request))
            # Reviewing holds the loop, so no timer could have interrupted it.
            if deadline.passed:
                return self._failure(entry, request, deadline, "ran out of time", None)
            self._record(entry, request, decision, deadline.elapsed)
        except Exception as error:  # noqa: BLE001 - whatever a rule stumbles over, its caller waits for an answer
            return self._failure(entry, request, deadline, "failed", error)
        return answer

    def _failure(self, entry: Entry, request: Request, deadline: Deadline, what: str, error: Exception | None) -> bytes:
        identifier = secrets.token_hex(4)
        log_failure(entry, request, what, identifier, error)
        elapsed = deadline.elapsed
        self.metrics.count_answer(entry.name, "failed", elapsed)
        log_decision(entry, request, "failed", (), elapsed, failure=identifier)
        return orjson.dumps(encode_failure(entry, request, what, identifier))

    def _record(self, entry: Entry, request: Request, decision: Decision, elapsed: float) -> None:
        verdict = "denied" if not decision.allowed else "changed" if decision.patch else "allowed"
        self.metrics.count_answer(entry.name, verdict, elapsed)
        self.metrics.count_decision(entry.name, decision, dry_run=request.dry_run)
        log_decision(entry, request, verdict, [finding.rule for finding in decision.findings], elapsed)
