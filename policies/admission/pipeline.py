"""The one pipeline: the concerns of an entry, one after the other, with the effects between them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

from policies.admission.severities import is_final
from policies.rules.decision import Decision
from policies.rules.settings.exemptions import exemption_in_cluster

if TYPE_CHECKING:
    from collections.abc import Container, Generator, Mapping, Sequence

    from policies.admission.webhooks import Entry
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import Key
    from policies.quota.outcomes import QuotaOutcome
    from policies.rules.charges import ChargeRequest
    from policies.rules.decision import Template
    from policies.rules.request import Concern, Request
    from policies.rules.settings import GPUAdmissionPolicy


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a concern that fails open, and is skipped."""

    identifier: str
    """The id in the log."""
    remark: str
    """The warning for the author."""


@dataclass(frozen=True, slots=True)
class Part:
    """One concern of a call, and the request that it reviews."""

    entry: Entry
    concern: Concern
    request: Request
    """Its object has the changes of the concerns before."""
    share: int | None
    """The number of concerns that share the time left, for a concern that fails open; None if it may use all of it."""


@dataclass(slots=True)
class _Step:
    """A step; the driver sets fields that have a default, and no others."""

    part: Part
    objects: Mapping[Key, Object | None]
    """Objects to see instead of those of the view: templates of this request, and objects that were read for it. None for
    one that does not exist."""
    failure: Failure | None = field(default=None, kw_only=True)
    """Set if the step failed, and the concern fails open."""


@dataclass(slots=True)
class Judge(_Step):
    """Run the rules of a concern. Pure: a driver may do it twice, and in a thread."""

    decision: Decision | None = None
    """The decision of the rules, with their own severities. None only after a failure."""


@dataclass(slots=True)
class Finish(_Step):
    """Apply the severities of the settings and the waivers of the object. Pure, as `Judge`."""

    decision: Decision
    """The decision of the rules, after the charge."""
    answer: Decision | None = None
    """The answer of the concern. None only after a failure."""


@dataclass(slots=True)
class Ensure(_Step):
    """Create the templates that a converted pod refers to, if they do not exist."""

    templates: tuple[Template, ...]
    foreign: Mapping[Key, Object] = field(default_factory=dict)
    """Stored templates of the same names with other content."""
    is_forged: bool = False
    """True if the namespace does not convert, so the call cannot come from the API server."""


@dataclass(slots=True)
class Read(_Step):
    """Read the objects that a charge depends on and the view does not show."""

    charge: ChargeRequest
    keys: tuple[Key, ...]
    found: Mapping[Key, Object | None] = field(default_factory=dict)
    """Empty if nothing can be read, as offline."""
    outcomes: Sequence[QuotaOutcome] | None = None
    """Set if the charge has its outcomes without them: the namespace has no quota, or they could not be read."""


@dataclass(slots=True)
class Charge(_Step):
    """Charge the object to the quotas of its namespace."""

    charge: ChargeRequest
    outcomes: Sequence[QuotaOutcome] | None = None
    """In each quota; None only after a failure."""
    names_holders: bool = True
    """False if the refusal only says how many there are."""


Step = Judge | Finish | Ensure | Read | Charge


S = TypeVar("S", bound=Step)


@dataclass(slots=True)
class Course:
    """The review of a request after the concerns so far."""

    request: Request
    """Its object has the changes of the concerns so far."""
    decision: Decision
    answers: dict[Concern, Decision] = field(default_factory=dict)
    """The answer of each concern that has ended."""
    failures: list[Failure] = field(default_factory=list)
    is_repeatable: bool = True
    """False if a template in the cluster, which the view did not show, changed an answer."""

    @classmethod
    def start(cls, request: Request) -> Course:
        """The course of a request before its first concern."""
        return cls(request, Decision(object=request.object))


class _Skipped(Exception):  # noqa: N818 - it ends a concern inside this module, and is no error
    """Raised when a step of a concern that fails open has failed."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.remark)
        self.failure = failure


def decide(
    entry: Entry, settings: GPUAdmissionPolicy, course: Course, concerns: Container[Concern]
) -> Generator[Step, None, None]:
    """Continue a course with the concerns of an entry, up to the first that refuses the object.

    Where a concern ends, its decision gets the severities of the settings and the waivers of the object (`finish`).

    Args:
        entry: The entry that the API server calls.
        settings: The administrator's settings.
        course: The course of the request; updated when a concern ends.
        concerns: The concerns to judge; others of the entry are skipped.
    """
    for number, (concern, policy) in enumerate(entry.concerns.items()):
        request = course.request
        if concern not in concerns:
            continue
        # A call that names its entry has passed the installed selectors, which may differ from the defaults; `judge_concern`
        # applies the settings.
        if not request.entry and exemption_in_cluster(concern, request.namespace, settings):
            continue
        part = Part(entry, concern, request, None if policy == "Fail" else len(entry.concerns) - number)
        try:
            answer = yield from _answer(part, course)
        except _Skipped as skipped:
            course.failures.append(skipped.failure)
            answer = Decision(object=request.object, remarks=(skipped.failure.remark,))
        course.answers[concern] = answer
        course.request = request.of(answer.object)
        course.decision = course.decision.then(answer.found_by(entry.name))
        if not course.decision.allowed:
            return


def _answer(part: Part, course: Course) -> Generator[Step, None, Decision]:
    """The answer of one concern, after its effects."""
    request = part.request
    objects: dict[Key, Object | None] = {each.key: each.manifest() for each in course.decision.templates}
    read_keys: set[Key] = set()
    while True:
        judge = yield from _done(Judge(part, objects))
        if judge.decision is None:
            raise TypeError(f"the driver answered nothing for {part.concern}")
        decision = judge.decision
        if decision.charges:
            from policies.quota.outcomes import settle

            (charge,) = decision.charges
            charged = Charge(part, objects, charge)
            if keys := tuple(key for key in charge.unseen if key not in read_keys):
                read_keys.update(keys)
                read = yield from _done(Read(part, objects, charge, keys))
                if read.outcomes is None and read.found:
                    # A PodGroup names claims that the view may not show either.
                    objects = {**objects, **read.found}
                    continue
                charged.outcomes = read.outcomes
            if charged.outcomes is None:
                yield from _done(charged)
            if charged.outcomes is None:
                raise TypeError("the driver left a charge without an outcome")
            decision = settle(decision, charged.outcomes, names_holders=charged.names_holders)
        answer = decision
        if not is_final(part.concern, decision, request):
            finished = yield from _done(Finish(part, objects, decision))
            if finished.answer is None:
                raise TypeError(f"the driver returned no answer of {part.concern}")
            answer = finished.answer
        if not answer.templates or request.dry_run or not course.is_repeatable:
            return answer
        ensured = yield from _done(Ensure(part, objects, answer.templates))
        if not ensured.foreign and not ensured.is_forged:
            return answer
        course.is_repeatable = False
        if ensured.is_forged:
            return Decision(object=request.object)
        objects = {**objects, **ensured.foreign}


def _done(step: S) -> Generator[Step, None, S]:
    """Yield a step, and return it once the driver has filled it in."""
    yield step
    if step.failure is not None:
        raise _Skipped(step.failure)
    return step
