"""Admission: from the body of a call to the body of its answer."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import orjson

from policies.decision import Decision
from policies.quota.ledger.admit import NoQuota
from policies.quota.opt_in import quota_shown
from policies.review import review_concern, with_new_templates
from policies.review.common_part import REPEATABLE
from policies.review.quota import settle_by_view
from policies.settings.exempt_namespaces import exemption_in_cluster
from policies.view import Overlay
from policies.waivers import decision_with_waivers
from webhook.server.admission_response import (
    encode,
    encode_busy,
    encode_failure,
    encode_limited_template,
    encode_refused_template,
    encode_too_large,
)
from webhook.server.admission_review import BadReview, TooLargeReview, decode, read_head
from webhook.server.deadlines import Deadline
from webhook.server.logs import log_decision, log_failure, log_refused_template
from webhook.server.memo import Memo, Recording
from webhook.server.review_runner import ReviewRunner
from webhook.server.strict_json import MOST_VALUES
from webhook.server.template_keeper import RefusedTemplate, TooManyTemplates
from webhook.server.turns import LARGE_BODIES, Busy, Turns

if TYPE_CHECKING:
    from collections.abc import Callable, Container

    from policies.decision import Template
    from policies.entries import Concern, Entry
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView
    from webhook.server.memo import Known
    from webhook.server.metrics import Metrics
    from webhook.server.quota_keeper import QuotaKeeper
    from webhook.server.review_runner import Run
    from webhook.server.template_keeper import TemplateKeeper

__all__ = ["Admission"]

_LARGE_BODY = 128 * 1024
"""Bytes; a body of this size is read in about a millisecond, one of 8 MiB in a tenth of a second."""
_FAILED, _LATE = "failed", "ran out of time"
_TOO_MANY_VALUES = f"has more than {MOST_VALUES:,} values"


@dataclass(slots=True)
class _Course:
    """The review of a request for one concern after the other, as far as it has come."""

    request: Request
    """The request, with the object as the concerns so far have left it."""
    decision: Decision
    failures: list[str] = field(default_factory=list)
    """The ids of failures of concerns that fail open."""
    said: dict[Concern, Decision] = field(default_factory=dict)
    """What the rules of each concern said."""


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
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Create the admission of one server.

        Args:
            view: The cluster.
            settings: Returns the current settings.
            metrics: Counts answers and decisions.
            templates: Creates the templates of converted pods; if None, no template is created.
            quotas: Charges created objects; if None, nothing is charged and quotas are checked against the view.
            clock: Returns monotonic seconds.
        """
        self._view = view
        self._settings = settings
        self._templates = templates
        self._quotas = quotas
        self._clock = clock
        self._turns = Turns()
        self._runner = ReviewRunner(self._turns, count=metrics.count_review_aside)
        self._memo = Memo(view)
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
            too_large = _TOO_MANY_VALUES if isinstance(error, TooLargeReview) else ""
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
            return self._encode_answer(entry, request, course.decision, course.failures, deadline)
        except Busy:
            return self._deny_busy(entry, request, deadline)
        except RefusedTemplate as refused:
            answer = encode_refused_template(request, refused)
            return self._deny_template(entry, request, deadline, refused.template, refused.error.message, answer)
        except TooManyTemplates as limited:
            answer = encode_limited_template(request, limited)
            return self._deny_template(entry, request, deadline, limited.template, str(limited), answer)
        except TimeoutError as error:
            return self._failure(entry, request, deadline, _LATE, error)
        except Exception as error:  # noqa: BLE001 - the caller needs an answer after any exception of a rule
            return self._failure(entry, request, deadline, _FAILED, error)

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

    async def _decide(self, entry: Entry, request: Request, settings: GPUAdmissionPolicy, run: Run) -> _Course:
        """Review a request for all concerns of an entry.

        What was answered for another pod of the same template is not reviewed again.
        """
        found = None if run.is_long else self._memo.find(entry, request, settings)
        if isinstance(found, Recording):
            course = _Course(found.request, Decision(object=found.request.object))
            await self._review(course, entry, REPEATABLE, found, found.settings, run)
            if not course.failures:
                found.keep(course.said, course.decision)
            course.request = request
        elif found is not None and await self._has_templates(found, request, settings, run):
            course = _Course(request, found.decision)
        else:
            course = _Course(request, Decision(object=request.object))
            await self._review(course, entry, entry.concerns, self._view, settings, run)
            return course
        if course.decision.allowed:
            await self._review(course, entry, entry.concerns.keys() - REPEATABLE, self._view, settings, run)
        return course

    async def _has_templates(self, known: Known, request: Request, settings: GPUAdmissionPolicy, run: Run) -> bool:
        """True if the templates of a known answer exist; then counts its conversion, too."""
        if known.conversion is not None:
            if await self._ensure_templates(request, known.conversion, settings, run) is not known.conversion:
                return False
            self._count_conversion(request, known.conversion)
        return True

    async def _review(
        self,
        course: _Course,
        entry: Entry,
        concerns: Container[Concern],
        view: ClusterView,
        settings: GPUAdmissionPolicy,
        run: Run,
    ) -> None:
        """Continue a course with those concerns of an entry that are among `concerns`.

        A concern that fails open may take an equal part of the time that is left, so that those after it can still answer.
        """
        for number, (concern, policy) in enumerate(entry.concerns.items()):
            if concern not in concerns:
                continue
            request = course.request
            try:
                if concern == "quota" and self._skips_quota(request):
                    continue
                own = run if policy == "Fail" else run.part(len(entry.concerns) - number)
                seen = with_new_templates(course.decision, view)
                course.said[concern], answer = await self._answer_concern(concern, request, seen, settings, own)
            except (Busy, RefusedTemplate, TooManyTemplates):
                raise
            except Exception as error:
                if policy == "Fail":
                    raise
                course.failures.append(secrets.token_hex(4))
                answer = self._skip(entry, concern, request, error, course.failures[-1])
            course.request = request.of(answer.object)
            course.decision = course.decision.then(answer.found_by(entry.name))
            if not course.decision.allowed:
                break

    async def _answer_concern(
        self, concern: Concern, request: Request, view: ClusterView, settings: GPUAdmissionPolicy, run: Run
    ) -> tuple[Decision, Decision]:
        """What the rules of one concern say, and its answer, with its charge and its templates written."""
        said = decision = await run(partial(review_concern, concern, request, view, settings))
        if decision.charges and self._quotas is not None:
            decision = await self._quotas.charge(decision, request, settings, run)
        elif decision.charges:
            decision = await run(partial(settle_by_view, decision, view, settings))
        decision = decision_with_waivers(decision, request, settings)
        if concern == "conversion":
            decision = await self._ensure_templates(request, decision, settings, run)
            self._count_conversion(request, decision)
        return said, decision

    def _skips_quota(self, request: Request) -> bool:
        """Skip the quota of a namespace without a GPUQuota, and count that; False if it may have one."""
        if self._quotas is None:
            return quota_shown(request.namespace, self._view) is None
        if not self._quotas.is_unlimited(request.namespace):
            return False
        self._quotas.count_outcome(request, NoQuota())
        return True

    def _count_conversion(self, request: Request, decision: Decision) -> None:
        if not request.dry_run:
            self.metrics.count_conversion(decision)

    def _skip(self, entry: Entry, concern: Concern, request: Request, error: Exception, identifier: str) -> Decision:
        """An answer with a warning, instead of that of a concern that fails open."""
        what = _LATE if isinstance(error, TimeoutError) else _FAILED
        log_failure(entry, request, what, identifier, error, concern=concern)
        self.metrics.count_skipped(entry.name, concern)
        text = f"{entry.webhook} has not reviewed this for {concern}: it {what}; the id in its log is {identifier}"
        return Decision(object=request.object, remarks=(text,))

    async def _ensure_templates(
        self, request: Request, decision: Decision, settings: GPUAdmissionPolicy, run: Run
    ) -> Decision:
        """The decision of conversion once its templates exist; a new one if a template has another content."""
        if self._templates is None or request.dry_run or not decision.allowed or not decision.templates:
            return decision
        namespace = request.namespace
        if exemption_in_cluster("conversion", namespace, settings) or not await self._templates.converts(
            namespace, run.deadline
        ):
            # The API server does not call us for such a namespace: the review is forged, so nothing is created.
            return Decision(object=request.object)
        foreign = await self._templates.ensure(decision.templates, run.deadline)
        if not foreign:
            return decision
        seen = {("ResourceClaimTemplate", *key): stored for key, stored in foreign.items()}
        return await run(partial(review_concern, "conversion", request, Overlay(self._view, seen), settings))

    def _encode_answer(
        self, entry: Entry, request: Request, decision: Decision, failures: list[str], deadline: Deadline
    ) -> bytes:
        if failures:
            decision = replace(decision, annotations={**decision.annotations, "failure": ", ".join(failures)})
        answer = orjson.dumps(encode(decision, entry, request))
        # A review in the loop cannot be interrupted by a timer.
        if deadline.has_passed:
            return self._failure(entry, request, deadline, _LATE, None)
        self._record(entry, request, decision, failures, deadline.elapsed)
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

    def _record(self, entry: Entry, request: Request, decision: Decision, failures: list[str], elapsed: float) -> None:
        if not decision.allowed:
            verdict = "denied"
        else:
            verdict = "failed" if failures else "changed" if decision.patch else "allowed"
        self.metrics.count_answer(entry.name, verdict, elapsed)
        self.metrics.count_decision(entry.name, decision)
        rules = [finding.rule.id for finding in decision.findings]
        log_decision(entry, request, verdict, rules, elapsed, failure=", ".join(failures))
