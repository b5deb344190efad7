"""Drives reviews: runs their rules in turns, creates templates, charges quotas, and warms up."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import orjson

from policies import outcome
from policies.admission import (
    ENTRIES,
    Charge,
    Course,
    Ensure,
    Failure,
    Finish,
    Judge,
    Read,
    decide,
    finish,
    judge,
    warm,
)
from policies.kubernetes.bounds import TooMuchWork, Work, bounded_by
from policies.kubernetes.names import DRA_LABEL, STRATEGY_LABEL
from policies.kubernetes.view import UNKNOWN, ChangedView, LookUpsView
from policies.quota.counting import outcomes_by_view
from policies.quota.ledger.allowances import NoQuota
from policies.quota.limits.cluster_quota import has_quota
from policies.rules.decision import MOST_FINDINGS, TEMPLATE
from policies.rules.settings.exemptions import exemption_in_cluster
from webhook.cluster.answers import ClusterError
from webhook.cluster.lists import list_one
from webhook.cluster.resources import RESOURCES
from webhook.server.admission_review import decode, encode
from webhook.server.logs import log_failure
from webhook.server.quota_keeper import ANSWER_SECONDS
from webhook.server.template_keeper import RefusedTemplate, TooManyTemplates
from webhook.server.turns import Busy, Deadline, Turns, run_spread

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from policies.admission import Entry, Step
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Decision
    from policies.rules.request import Concern, Request
    from policies.rules.settings import GPUAdmissionPolicy
    from webhook.cluster.client import APIClient
    from webhook.server.quota_keeper import QuotaKeeper
    from webhook.server.template_keeper import TemplateKeeper
    from webhook.server.turns import Payer


T = TypeVar("T")

IN_LOOP = 15_000
"""Units of work that a review may take in the event loop, about 15 ms; steps too small to be counted come to
as much, and no review is to hold the loop for more than 50 ms."""
LARGEST_IN_LOOP = 32 * 1024
"""Bytes of a body that is reviewed in the event loop. Rules walk over an object several times, at the worst for a
microsecond a byte."""
_LEDGER_SECONDS = "30s"
_NOBODY = ("", "")


class ReviewRunner:
    """Runs short reviews in the event loop and long ones in threads."""

    def __init__(
        self,
        turns: Turns | None = None,
        *,
        count: Callable[[], None] = lambda: None,
        work_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        """Create a runner.

        Args:
            turns: The queue for long reviews.
            count: Called for each review that runs in a thread.
            work_clock: Returns the seconds of work of the current thread.
        """
        self._turns = turns or Turns()
        self._count = count
        self._work_clock = work_clock

    def for_call(self, body: bytes, deadline: Deadline, payer: Payer = _NOBODY) -> Run:
        """The runner for the work of one call."""
        return Run(self, deadline, payer, is_long=len(body) > LARGEST_IN_LOOP)

    async def run(
        self,
        work: Callable[[], T],
        deadline: Deadline,
        payer: Payer = _NOBODY,
        *,
        is_long: bool = False,
        in_loop: Work | None = None,
    ) -> T:
        """Return or raise what `work` does.

        Args:
            work: A function without side effects; may be called twice.
            deadline: Deadline of the call.
            payer: The payer of the time.
            is_long: True if the work is known to be too long for the event loop.
            in_loop: The work that may be done in the event loop; None for `IN_LOOP`.

        Raises:
            Busy: the turn of the payer would come too late.
            TimeoutError: the deadline passed.
        """
        if not is_long and not self._turns.runs_aside(payer):
            try:
                with bounded_by(in_loop or Work(IN_LOOP)):
                    return self._measure(work, partial(self._turns.charge, payer))
            except TooMuchWork:
                pass
        await self._turns.take(payer, deadline)
        self._count()
        spent = list[float]()

        def finish() -> None:
            self._turns.charge(payer, sum(spent))
            self._turns.release()

        return await run_spread(partial(self._measure, work, spent.append), deadline.remaining, finish)

    def _measure(self, work: Callable[[], T], charge: Callable[[float], None]) -> T:
        began = self._work_clock()
        try:
            return work()
        finally:
            charge(self._work_clock() - began)


@dataclass(eq=False)
class LedgerRunner:
    """Runs the computations of charging and counting; their length depends on the namespace."""

    clock: Callable[[], float] = time.monotonic
    _runner: ReviewRunner = field(default_factory=ReviewRunner, init=False)

    async def __call__(self, namespace: str, work: Callable[[], T]) -> T:
        """Return or raise what `work` does; see `ReviewRunner.run`.

        Raises:
            TimeoutError: the work, or the wait for its turn, took too long.
        """
        try:
            return await self._runner.run(work, Deadline.start(self.clock, _LEDGER_SECONDS), (namespace, ""))
        except Busy as error:
            raise TimeoutError from error


@dataclass(frozen=True, slots=True)
class Run:
    """Runs the work of one call."""

    runner: ReviewRunner
    deadline: Deadline
    payer: Payer
    is_long: bool
    """True if the object is too large to be reviewed in the event loop."""
    in_loop: Work = field(default_factory=lambda: Work(IN_LOOP))
    """The work that the whole call may do in the event loop."""

    def part(self, parts: int) -> Run:
        """The runner for one of so many equal parts of the time left, less the time to answer."""
        return Run(self.runner, self.deadline.part(parts), self.payer, is_long=self.is_long, in_loop=self.in_loop)

    async def __call__(self, work: Callable[[], T]) -> T:
        """Return or raise what `work` does; see `ReviewRunner.run`."""
        return await self.runner.run(work, self.deadline, self.payer, is_long=self.is_long, in_loop=self.in_loop)


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
    client: APIClient | None = None
    """Reads what a refusal of configuration depends on; if None, the view is believed."""

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
        """True if the namespace certainly has no quota, so that nothing is charged."""
        try:
            if self.quotas is None:
                return not has_quota(request.namespace, self.view)
            return self.quotas.is_unlimited(request.namespace)
        except Exception:  # noqa: BLE001 - the concern will meet the same, and its policy says what a failure means
            return False

    def count_unlimited(self, request: Request) -> None:
        """Count an object that is admitted without a charge."""
        if self.quotas is not None:
            self.quotas.count_outcome(request, NoQuota())

    async def _do(self, step: Step, view: ClusterView, settings: GPUAdmissionPolicy, run: Run) -> None:
        match step:
            case Judge(part=part):
                step.decision = await run(partial(judge, step, view, settings))
                if self.client is not None and part.concern == "configuration":
                    step.decision = await self._judge_anew(self.client, step, step.decision, settings, run)
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
                step.outcomes = await run(partial(outcomes_by_view, step.charge, seen, settings))

    async def _judge_anew(
        self, client: APIClient, step: Judge, decision: Decision, settings: GPUAdmissionPolicy, run: Run
    ) -> Decision:
        """The decision on configuration; a refusal does not rest on objects that a watch shows too late.

        `kubectl apply -f folder` creates a ConfigMap milliseconds before the ClusterPolicy that names it. If the API server
        cannot be read, the decision stays.
        """
        if finish(step.part.concern, decision, step.part.request, settings).allowed:
            return decision
        look_ups = LookUpsView(self.view)
        await run(partial(judge, step, look_ups, settings))
        keys = [key for key, found in look_ups.found.items() if found is not UNKNOWN and key[0] in RESOURCES]
        try:
            async with run.deadline.timeout(ANSWER_SECONDS):
                read = await asyncio.gather(
                    *(list_one(client, RESOURCES[kind], name, namespace) for kind, namespace, name in keys)
                )
        except (TimeoutError, ClusterError, ValueError) as error:
            _logger.warning("refused by what the watches show, which could not be read anew: %s", error)
            return decision
        now = ChangedView(self.view, dict(zip(keys, read, strict=True)), lists=False)
        return await run(partial(judge, step, now, settings))

    def _failure(self, step: Step, error: Exception) -> Failure:
        what = LATE if isinstance(error, TimeoutError) else FAILED
        identifier = secrets.token_hex(4)
        entry, concern = step.part.entry, step.part.concern
        log_failure(entry, step.part.request, what, identifier, error, concern=concern)
        self.count_skipped(entry.name, concern)
        text = f"{entry.webhook} has not reviewed this for {concern}: it {what}; the id in its log is {identifier}"
        return Failure(identifier, text)


_ROUNDS = 9
"""CPython specialises the code of a function after eight calls."""
_MOST_SECONDS = 10.0
"""Seconds after which the server starts anyway. After the digests, all rounds take less than a second."""
_NAMESPACE = "gpu-admission-warm-up"
_QUOTA = {"metadata": {"name": "gpu", "namespace": _NAMESPACE}, "spec": {"limits": [{"name": "all", "devices": 1}]}}

_logger = logging.getLogger("gpu_admission.server")


def warm_up(view: ClusterView, settings: GPUAdmissionPolicy, *, clock: Callable[[], float] = time.monotonic) -> None:
    """Compute the digests of a cluster, and answer calls of each form without effects.

    The digests of explanations are computed too. Nothing is read from the API server. The warm-up ends early, with a line in
    the log, after ten seconds or if a review fails; the server starts anyway.

    Args:
        view: The cluster.
        settings: The current settings.
        clock: Returns monotonic seconds.
    """
    end = clock() + _MOST_SECONDS
    warm(view)
    outcome.warm(view)
    with asyncio.Runner() as loop:
        for number in range(_ROUNDS):
            for name, labels, document in _samples(number):
                if clock() > end:
                    _logger.warning("the first calls may be slow: the warm-up took more than %g seconds", _MOST_SECONDS)
                    return
                namespace = {"metadata": {"name": _NAMESPACE, "labels": labels}}
                seen = ChangedView(
                    view, {("Namespace", "", _NAMESPACE): namespace, ("GPUQuota", _NAMESPACE, "gpu"): _QUOTA}
                )
                try:
                    loop.run(_answer(ENTRIES[name], _body(document), seen, settings, clock))
                except Exception:
                    _logger.exception("the first call of %s may be slow: its warm-up failed", name)
                    return


async def _answer(
    entry: Entry, body: bytes, view: ClusterView, settings: GPUAdmissionPolicy, clock: Callable[[], float]
) -> None:
    """Answer a call as `webhook.server.admission` does, without logs, metrics and effects.

    Raises:
        RuntimeError: A concern that fails open failed.
    """
    request = decode(body, entry.name)
    course = Course.start(request)
    driver = Driver(view, templates=None, quotas=None)
    run = ReviewRunner().for_call(body, Deadline.start(clock, None))
    await driver.drive(decide(entry, settings, course, entry.concerns), view, settings, run)
    if course.failures:
        raise RuntimeError(course.failures[0].remark)
    orjson.dumps(encode(course.decision, entry, request))


def _samples(number: int) -> Iterator[tuple[str, dict[str, str], Object]]:
    """Entries, labels of the namespace, and objects to create in it; each number has its own selectors."""
    for strategy in ("template", "rename", "leave", "auto"):
        for resource in ("nvidia.com/gpu", "nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"):
            yield "convert-pods", {DRA_LABEL: "enabled", STRATEGY_LABEL: strategy}, _pod(resource)
    wish = {"gpu-admission.io/product": "H100*", "gpu-admission.io/min-memory": "10Gi"}
    yield "convert-pods", {DRA_LABEL: "enabled"}, _pod("nvidia.com/gpu", annotations=wish)
    yield "place-pods", {DRA_LABEL: "preview"}, _pod("nvidia.com/gpu", annotations=wish)
    for entry in ("enforce-converted-pods", "enforce-quota", "check-pods"):
        yield entry, {DRA_LABEL: "enabled"}, _pod("nvidia.com/gpu")
        claims = [{"name": "gpu", "resourceClaimName": "gpu"}]
        yield entry, {}, _pod("nvidia.com/gpu", nodeSelector={"nvidia.com/gpu.family": "hopper"}, resourceClaims=claims)
    yield "guard-pods", {}, _pod("cpu", volumes=[{"name": "dev", "hostPath": {"path": "/dev"}}])
    attributes = 'device.attributes["gpu.nvidia.com"]'
    expression = (
        f'"productName" in {attributes} && {attributes}.productName != "{number}" && {attributes}.type == "gpu"'
    )
    exactly = {"deviceClassName": "gpu.nvidia.com", "selectors": [{"cel": {"expression": expression}}]}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "gpu"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    yield "claims", {}, claim
    yield "check-pods", {}, claim


def _pod(resource: str, annotations: dict[str, str] | None = None, **spec: Any) -> Object:
    amounts = {resource: "1"}
    container = {"name": "main", "image": "main", "resources": {"limits": amounts, "requests": amounts}}
    metadata = {"name": "warm-up", "annotations": annotations or {}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}


def _body(document: Object) -> bytes:
    group, _, version = document["apiVersion"].rpartition("/")
    request = {
        "uid": "warm-up",
        "kind": {"group": group, "version": version, "kind": document["kind"]},
        "namespace": _NAMESPACE,
        "operation": "CREATE",
        "userInfo": {"username": "gpu-admission"},
        "object": document,
        "dryRun": True,
    }
    return orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request})
