"""Selectors that stop the scheduler: they fail on a device, do not compile, or cost too much."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from policies.cel import MOST_COST, UNBOUNDED_COST, CelCompileError, compile_selector, split_conjuncts
from policies.claims.claim_subject import Subject
from policies.claims.missing_reads import domains, missing_reads, removed_attributes, unguarded_reads
from policies.claims.selected_devices import path_of, text_place
from policies.devices.allocation.reading import AllocationError, read_classes
from policies.devices.allocation.shapes import MISSING_KEY, OPTIONAL_HINT
from policies.devices.conditions import device_reads
from policies.devices.resource_claims import Claim
from policies.kubernetes.bounds import check_cancelled
from policies.kubernetes.names import shorten
from policies.kubernetes.objects import name_of, namespace_of
from policies.outcome.claims import Obstacle, ObstacleKind
from policies.outcome.rejected_devices import value_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.cel import Read
    from policies.claims.claim_subject import Facts
    from policies.devices.allocation.checks import Checks, Question
    from policies.devices.allocation.slices import AllocatableDevice
    from policies.devices.resource_claims import Subrequest
    from policies.kubernetes.objects import Object
    from policies.outcome.allocation import AllocationProblem, Solver
    from policies.outcome.survey import Failure


_RUNTIME = "CEL runtime error: "
_COMPILE = "CEL compile error: "


@dataclass(frozen=True, slots=True)
class _Culprit:
    """A selector that fails, and the first device on which it fails."""

    device: AllocatableDevice
    selector: str
    owner: Object
    """The claim or class of the selector."""


def failure_obstacle(
    failure: Failure, problem: AllocationProblem, solver: Solver, resources: frozenset[str], facts: Facts
) -> Obstacle:
    """The obstacle for an error: what fails, on which device, and what to write instead."""
    if _RUNTIME not in failure.message:
        cause = "a selector does not compile" if _COMPILE in failure.message else "Kubernetes' scheduler fails"
        sentence = f"Kubernetes' scheduler fails with this: {_first_line(failure.message)}"
        return Obstacle(ObstacleKind.ALLOCATION_FAILS, sentence, cause=cause)
    found = _culprit(failure, problem, solver, resources)
    where, _, error = failure.message.partition(_RUNTIME)
    cause = "a selector fails on a device"
    if found is None:
        sentence = f"Kubernetes' scheduler fails with this: {where}{_RUNTIME}{error}"
        return Obstacle(ObstacleKind.ALLOCATION_FAILS, sentence, cause=cause)
    checks = solver.allocator(resources).question.checks
    node = name_of(problem.nodes[failure.position])
    sentence = f"a selector fails on device {found.device.name} of node {node}: {where}{_RUNTIME}{error}"
    remedy = _remedy(found, error, checks, facts)
    return Obstacle(ObstacleKind.ALLOCATION_FAILS, sentence, remedy, cause=cause)


def _first_line(text: str) -> str:
    """The first line of an error; the others show the place in the expression."""
    first, *others = text.splitlines() or [""]
    return f"{first} ..." if others else first


def _culprit(
    failure: Failure, problem: AllocationProblem, solver: Solver, resources: frozenset[str]
) -> _Culprit | None:
    """The first device on which a selector fails, and the selector."""
    allocator = solver.allocator(resources)
    question = allocator.question
    devices = [device for pool in allocator.pools(problem.nodes[failure.position]) for device in pool.devices()]
    for claim, named in zip(question.claims, problem.claims_on(resources), strict=True):
        for subrequest in claim.subrequests:
            for device in devices:
                if question.checks.in_use(subrequest, device) is None and _fails(
                    question.checks, claim, subrequest, device
                ):
                    return _culprit_of(subrequest, device, question, named.claim.document, problem.classes)
    return None


def _fails(checks: Checks, claim: Claim, subrequest: Subrequest, device: AllocatableDevice) -> bool:
    try:
        checks.selectors(claim, subrequest, device)
    except AllocationError:
        return True
    return False


def _culprit_of(
    subrequest: Subrequest, device: AllocatableDevice, question: Question, claim: Object, classes: Iterable[Object]
) -> _Culprit:
    of_class = _failing_selector(question.classes[subrequest.device_class].selectors, device, question.checks)
    if of_class:
        owner = next(each for each in classes if name_of(each) == subrequest.device_class)
        return _Culprit(device, of_class, owner)
    return _Culprit(device, _failing_selector(subrequest.selectors, device, question.checks), claim)


def _failing_selector(selectors: Iterable[str | None], device: AllocatableDevice, checks: Checks) -> str:
    return next((each for each in selectors if each is not None and checks.matches(each, device) is None), "")


def _remedy(found: _Culprit, error: str, checks: Checks, facts: Facts) -> str:
    """The remedy of review's rules, else the failing condition with a check for what it reads."""
    key = error.removesuffix(OPTIONAL_HINT).removeprefix(MISSING_KEY).strip()
    if not error.startswith(MISSING_KEY):
        return "change the selector so that it is true or false for every device of the class"
    texts = (each.text for each in split_conjuncts(found.selector))
    failing = next((text for text in texts if checks.matches(text, found.device) is None), found.selector)
    reads = (each for each in device_reads(failing) if each.name == key)
    read = next((each for each in reads if value_of(found.device, each) is None), None)
    if read is None or read.domain is None:
        return f"check that {key} is there before it is read"
    return _remedy_by_rules(found.owner, found.selector, read, facts) or _guarded_condition(read, failing)


def _guarded_condition(read: Read, failing: str) -> str:
    quoted = (read.name or "").replace('"', '\\"')
    return f'write "{quoted}" in {path_of(read.part, read.domain or "")} && {shorten(failing)}'


_REMEDY = "avoid loops in loops: all, exists, filter and map over what may be long"


def costly_selectors(problem: AllocationProblem) -> tuple[Obstacle, ...]:
    """Obstacles for selectors whose estimated cost for one device exceeds Kubernetes' limit.

    The API server refuses them, so they are only in manifests, or were stored by a version with another estimate.

    Raises:
        AllocationError: A field of a claim or a class has the wrong type.
    """
    features = problem.features.stored_selectors
    found: list[Obstacle] = []
    for owner, text in _selectors(problem):
        check_cancelled()
        try:
            cost = compile_selector(text, features).max_cost
        except CelCompileError:
            continue  # the scheduler fails with it, and that is said where it does
        if cost > MOST_COST:
            estimate = "has no bound" if cost >= UNBOUNDED_COST else f"is {cost:,}"
            sentence = (
                f"the API server refuses a selector of {owner} as too costly: the estimate for one device {estimate}, "
                f"and the limit is {MOST_COST:,}: {shorten(text)}"
            )
            found.append(Obstacle(ObstacleKind.TOO_COSTLY, sentence, _REMEDY))
    return tuple(found)


def _selectors(problem: AllocationProblem) -> Iterator[tuple[str, str]]:
    """All selectors, each with its owner."""
    for device_class in read_classes(problem.classes).values():
        for text in device_class.selectors:
            if text is not None:
                yield f"DeviceClass {device_class.name}", text
    for named in problem.claims:
        for subrequest in named.claim.subrequests:
            for text in subrequest.expressions:
                yield f"request {subrequest.full_name} of {named.source}", text


def _remedy_by_rules(document: Object, selector: str, read: Read, facts: Facts) -> str:
    """The remedy of the rule with a finding on the read; empty if there is none.

    Args:
        document: the ResourceClaim or DeviceClass of the selector.
        selector: its text.
        read: what a device lacks.
        facts: the cluster, as rules see it.
    """
    kind = "DeviceClass" if document.get("kind") == "DeviceClass" else "ResourceClaim"
    subject = Subject({**document, "kind": kind}, None, kind, Claim(document).version, namespace_of(document), facts)
    place = (read.part, read.domain, read.name)
    missing = [each for each in missing_reads(subject) if each.selector.text == selector]
    found = next((each for each in missing if each.place == place), None)
    if found is None:
        return ""
    if found.reason == "domain":  # told once for all that is read of the domain
        found = next(each for each in missing if (each.reason, *each.place[:2]) == ("domain", *place[:2]))
    where = text_place(found.selector, found.offset)
    told = chain(domains(subject), removed_attributes(subject), unguarded_reads(subject))
    return next((each.remedy for each in told if each.place == where and each.remedy), "")
