"""Admission: from the body of a call to the body of its answer."""

from __future__ import annotations

import secrets
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson

from policies.admission import REPEATABLE, Course, Ensure, Part, decide
from webhook.server.admission_review import (
    BadReview,
    TooLargeReview,
    decode,
    encode,
    encode_busy,
    encode_failure,
    encode_limited_template,
    encode_refused_template,
    encode_too_large,
    read_head,
)
from webhook.server.bodies import TAKES_MORE
from webhook.server.driver import FAILED, LATE, Driver, ReviewRunner
from webhook.server.logs import log_decision, log_failure, log_refused_template
from webhook.server.memo import Memo, Recording
from webhook.server.template_keeper import RefusedTemplate, TooManyTemplates
from webhook.server.turns import LARGE_BODIES, Busy, Deadline, Turns

if TYPE_CHECKING:
    from collections.abc import Callable
    from collections.abc import Set as AbstractSet

    from policies.admission import Entry
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Decision, Template
    from policies.rules.request import Concern, Request
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cluster.client import APIClient
    from webhook.server.driver import Run
    from webhook.server.metrics import Metrics
    from webhook.server.quota_keeper import QuotaKeeper
    from webhook.server.template_keeper import TemplateKeeper


_QUOTA: frozenset[Concern] = frozenset({"quota"})
_LARGE_BODY = 128 * 1024
"""Bytes; a body of this size is read in about a millisecond, one of 8 MiB in a tenth of a second."""


class Admission:
    """Answers the calls of the API server with the decisions of the policies.

    Every valid review gets an answer. If there is no decision, because a rule raised an exception or the time is up, the
    failure policy of the entry decides, and the answer and the log contain the same id.
    """

    def __init__(
        self,
        view: ClusterView,
        settings: Callable[[], GPUAdmissionPolicy],
        metrics: Metrics,
        *,
        templates: TemplateKeeper | None = None,
        quotas: QuotaKeeper | None = None,
        client: APIClient | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the admission of one server.

        Args:
            view: The cluster.
            settings: Returns the current settings.
            metrics: Counts answers and decisions.
            templates: Creates the templates of converted pods; if None, no template is created.
            quotas: Charges created objects; if None, nothing is charged and quotas are checked against the view.
            client: Reads what a refusal of configuration depends on; if None, the view is believed.
            clock: Returns monotonic seconds.
        """
        self._view = view
        self._settings = settings
        self._clock = clock
        self._turns = Turns()
        self._runner = ReviewRunner(self._turns, count=metrics.count_review_aside)
        self._memo = Memo(view)
        self._driver = Driver(view, templates, quotas, metrics.count_skipped, client)
        self.metrics = metrics

    def deadline(self, timeout: str | None) -> Deadline:
        """Begin the deadline of a call with the `timeout` of its query.

        Raises:
            BadDuration: `timeout` is not a duration.
        """
        return Deadline.start(self._clock, timeout)

    async def answer(
        self, entry: Entry, body: bytes, deadline: Deadline, *, caller_is_known: bool = False, address: str = ""
    ) -> bytes:
        """Review the request of an AdmissionReview and return the AdmissionReview with the response.

        Creates the templates that the response references and charges the quota first.

        Args:
            entry: The entry that was called.
            body: The AdmissionReview.
            deadline: Deadline of the call.
            caller_is_known: True if the caller is authenticated; `quota.nameHolders` may depend on it.
            address: Address of the caller. An unknown caller has a separate share, because it can name any namespace.

        Raises:
            BadReview: the body is not an AdmissionReview, so it has no uid to respond to; or it is large, there is no time
                to parse it, and it does not begin like that of an API server.
        """
        caller = "" if caller_is_known else address
        try:
            request = await self._decode(entry, body, deadline, caller, caller_is_known=caller_is_known)
        except (Busy, TimeoutError, TooLargeReview) as error:
            # A call without an answer would pass where the entry fails open. Parsing the body now would hold the loop.
            too_large = TAKES_MORE if isinstance(error, TooLargeReview) else ""
            if (refusal := self.refuse(entry, body, deadline, too_large)) is not None:
                return refusal
            why = str(error) if too_large else "The AdmissionReview cannot be parsed in time; try again."
            raise BadReview(why) from error
        payer = request.namespace, caller
        if self._turns.is_used_up(payer):
            request = replace(request, compares=False)
        run = self._runner.for_call(body, deadline, payer)
        try:
            course = await self._decide(entry, request, self._settings(), run)
            failures = [failure.identifier for failure in course.failures]
            return self._encode_answer(entry, request, course.decision, failures, deadline)
        except Busy:
            return self._deny_busy(entry, request, deadline)
        except RefusedTemplate as refused:
            answer = encode_refused_template(request, refused)
            return self._deny_template(entry, request, deadline, refused.template, refused.error.message, answer)
        except TooManyTemplates as limited:
            answer = encode_limited_template(request, limited)
            return self._deny_template(entry, request, deadline, limited.template, str(limited), answer)
        except TimeoutError as error:
            return self._failure(entry, request, deadline, LATE, error)
        except Exception as error:  # noqa: BLE001 - the caller needs an answer after any exception of a rule
            return self._failure(entry, request, deadline, FAILED, error)

    def refuse(self, entry: Entry, body: bytes, deadline: Deadline, too_large: str = "") -> bytes | None:
        """Deny a body without parsing it; None if it does not begin like that of an API server.

        Args:
            entry: The entry that was called.
            body: The body, or its beginning.
            deadline: Deadline of the call.
            too_large: The reason, to follow "its AdmissionReview"; empty if there is no time or memory now.
        """
        request = read_head(body, entry.name)
        if request is None:
            return None
        if not too_large:
            return self._deny_busy(entry, request, deadline)
        return self._deny(entry, request, deadline, encode_too_large(request, too_large))

    async def _decode(
        self, entry: Entry, body: bytes, deadline: Deadline, caller: str, *, caller_is_known: bool
    ) -> Request:
        if len(body) <= _LARGE_BODY:
            return decode(body, entry.name, caller_is_known=caller_is_known)
        begun = read_head(body, entry.name)
        payer = (begun.namespace if begun is not None else "") or LARGE_BODIES, caller
        return await self._runner.run(
            lambda: decode(body, entry.name, caller_is_known=caller_is_known), deadline, payer, is_long=True
        )

    async def _decide(self, entry: Entry, request: Request, settings: GPUAdmissionPolicy, run: Run) -> Course:
        """Review a request for all concerns of an entry.

        Of a pod whose template has a known answer, only the concerns that are not `REPEATABLE` are judged.
        """
        course = None if run.is_long else await self._repeatable_course(entry, request, settings, run)
        concerns: AbstractSet[Concern] = entry.concerns.keys()
        if course is None:
            course = Course.start(request)
        else:
            concerns -= REPEATABLE
        others = concerns - _QUOTA
        if others and course.decision.allowed:
            await self._driver.drive(decide(entry, settings, course, others), self._view, settings, run)
        if "quota" in concerns and course.decision.allowed:
            # Not asked before the other concerns: a GPUQuota may appear while they wait for their turn.
            if self._driver.is_unlimited(request):
                self._driver.count_unlimited(request)
            else:
                await self._driver.drive(decide(entry, settings, course, _QUOTA), self._view, settings, run)
        if not request.dry_run and (converted := course.answers.get("conversion")) is not None:
            self.metrics.count_conversion(converted)
        return course

    async def _repeatable_course(
        self, entry: Entry, request: Request, settings: GPUAdmissionPolicy, run: Run
    ) -> Course | None:
        """The course after the concerns that are `REPEATABLE`, from the memo or recorded for it.

        None if the memo has no use for the request.
        """
        found = self._memo.find(entry, request, settings)
        if isinstance(found, Recording):
            course = Course.start(found.request)
            steps = decide(entry, found.settings, course, REPEATABLE)
            await self._driver.drive(steps, found, found.settings, run)
            found.keep(course)
            course.request = request
            return course
        if found is None:
            return None
        conversion = found.conversion
        if conversion is not None and conversion.templates and not request.dry_run:
            step = Ensure(Part(entry, "conversion", request, None), {}, conversion.templates)
            await self._driver.ensure(step, settings, run)
            if step.foreign or step.is_forged:
                return None
        return Course(request, found.decision, {} if conversion is None else {"conversion": conversion})

    def _encode_answer(
        self, entry: Entry, request: Request, decision: Decision, failures: list[str], deadline: Deadline
    ) -> bytes:
        if failures:
            decision = replace(decision, annotations={**decision.annotations, "failure": ", ".join(failures)})
        answer = orjson.dumps(encode(decision, entry, request))
        # A review in the loop cannot be interrupted by a timer.
        if deadline.has_passed:
            return self._failure(entry, request, deadline, LATE, None)
        if not decision.allowed:
            verdict = "denied"
        else:
            verdict = "failed" if failures else "changed" if decision.patch else "allowed"
        elapsed = deadline.elapsed
        self.metrics.count_answer(entry.name, verdict, elapsed)
        self.metrics.count_decision(entry.name, decision)
        rules = [finding.rule.id for finding in decision.findings]
        log_decision(entry, request, verdict, rules, elapsed, failure=", ".join(failures))
        return answer

    def _failure(self, entry: Entry, request: Request, deadline: Deadline, what: str, error: Exception | None) -> bytes:
        identifier = secrets.token_hex(4)
        log_failure(entry, request, what, identifier, error)
        elapsed = deadline.elapsed
        self.metrics.count_answer(entry.name, "failed", elapsed)
        log_decision(entry, request, "failed", (), elapsed, failure=identifier)
        return orjson.dumps(encode_failure(entry, request, what, identifier))

    def _deny_template(
        self, entry: Entry, request: Request, deadline: Deadline, template: Template, why: str, answer: dict[str, Any]
    ) -> bytes:
        log_refused_template(entry, request, template.name, why)
        self.metrics.count_refused_conversion()
        return self._deny(entry, request, deadline, answer)

    def _deny_busy(self, entry: Entry, request: Request, deadline: Deadline) -> bytes:
        self.metrics.count_review_refused()
        return self._deny(entry, request, deadline, encode_busy(request))

    def _deny(self, entry: Entry, request: Request, deadline: Deadline, answer: dict[str, Any]) -> bytes:
        elapsed = deadline.elapsed
        self.metrics.count_answer(entry.name, "denied", elapsed)
        log_decision(entry, request, "denied", (), elapsed)
        return orjson.dumps(answer)
