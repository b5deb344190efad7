"""The driver of the pipeline in a server: runs rules, creates templates and charges quotas."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from policies.admission import Charge, Ensure, Failure, Finish, Judge, Read, finish, judge
from policies.kubernetes.view import ChangedView
from policies.quota.counting import outcome_by_view
from policies.quota.ledger.allowances import NoQuota
from policies.quota.limits.quota import quota_shown
from policies.rules.decision import MOST_FINDINGS, TEMPLATE
from policies.rules.settings.exemptions import exemption_in_cluster
from webhook.server.logs import log_failure
from webhook.server.template_keeper import RefusedTemplate, TooManyTemplates
from webhook.server.turns import Busy

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from policies.admission import Step
    from policies.kubernetes.view import ClusterView
    from policies.rules.request import Concern, Request
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.server.quota_keeper import QuotaKeeper
    from webhook.server.review_runner import Run
    from webhook.server.template_keeper import TemplateKeeper

__all__ = ["FAILED", "LATE", "Driver"]

FAILED, LATE = "failed", "ran out of time"


@dataclass(frozen=True, slots=True)
class Driver:
    """Carries out the steps of the pipeline."""

    view: ClusterView
    """The cluster."""
    templates: TemplateKeeper | None
    """Creates templates; if None, no template is created."""
    quotas: QuotaKeeper | None
    """Charges objects; if None, nothing is charged and quotas are checked against the view."""
    count_skipped: Callable[[str, Concern], None] = lambda _entry, _concern: None
    """Called for each concern that failed open."""

    async def drive(
        self, steps: Generator[Step, None, None], view: ClusterView, settings: GPUAdmissionPolicy, run: Run
    ) -> None:
        """Carry out all steps of a pipeline.

        Args:
            steps: The steps.
            view: The cluster as rules see it.
            settings: The settings as rules see them.
            run: Runs the rules. A concern that fails open gets an equal part of the time that is left when it begins, so
                that those after it can still answer.

        Raises:
            Busy: The turn of the payer would come too late.
            RefusedTemplate, TooManyTemplates: A template cannot be created.
            Exception: A concern that fails closed failed.
        """
        concern, own = None, run
        try:
            for step in steps:
                if step.part.concern != concern:
                    concern, share = step.part.concern, step.part.share
                    own = run if share is None else run.part(share)
                try:
                    await self._do(step, view, settings, own)
                except (Busy, RefusedTemplate, TooManyTemplates):
                    raise
                except Exception as error:
                    if step.part.share is None:
                        raise
                    step.failure = self._failure(step, error)
        finally:
            steps.close()

    async def ensure(self, step: Ensure, settings: GPUAdmissionPolicy, run: Run) -> None:
        """Create the templates of a step, unless the request is forged.

        Raises:
            RefusedTemplate, TooManyTemplates: A template cannot be created.
        """
        if self.templates is None:
            return
        namespace = step.part.request.namespace
        if exemption_in_cluster("conversion", namespace, settings) or not await self.templates.converts(
            namespace, run.deadline
        ):
            step.is_forged = True
            return
        foreign = await self.templates.ensure(step.templates, run.deadline)
        step.foreign = {(TEMPLATE, *key): stored for key, stored in foreign.items()}

    def is_unlimited(self, request: Request) -> bool:
        """True if the namespace certainly has no GPUQuota, so that nothing is charged."""
        try:
            if self.quotas is None:
                return quota_shown(request.namespace, self.view) is None
            return self.quotas.is_unlimited(request.namespace)
        except Exception:  # noqa: BLE001 - the concern will meet the same, and its policy says what a failure means
            return False

    def count_unlimited(self, request: Request) -> None:
        """Count an object that is admitted without a charge."""
        if self.quotas is not None:
            self.quotas.count_outcome(request, NoQuota())

    async def _do(self, step: Step, view: ClusterView, settings: GPUAdmissionPolicy, run: Run) -> None:
        match step:
            case Judge():
                step.decision = await run(partial(judge, step, view, settings))
            case Finish(part=part, decision=decision):
                work = partial(finish, part.concern, decision, part.request, settings)
                # Most have a few findings, which need no turn of their own.
                step.answer = work() if len(decision.findings) <= MOST_FINDINGS else await run(work)
            case Ensure():
                await self.ensure(step, settings, run)
            case Read() if self.quotas is not None:
                await self.quotas.read(step, run.deadline)
            case Charge() if self.quotas is not None:
                await self.quotas.charge(step, settings, run.deadline)
            case Charge():
                seen = ChangedView(self.view, step.objects)
                step.outcome = await run(partial(outcome_by_view, step.charge, seen, settings))

    def _failure(self, step: Step, error: Exception) -> Failure:
        what = LATE if isinstance(error, TimeoutError) else FAILED
        identifier = secrets.token_hex(4)
        entry, concern = step.part.entry, step.part.concern
        log_failure(entry, step.part.request, what, identifier, error, concern=concern)
        self.count_skipped(entry.name, concern)
        text = f"{entry.webhook} has not reviewed this for {concern}: it {what}; the id in its log is {identifier}"
        return Failure(identifier, text)
