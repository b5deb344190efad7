"""Failures: errors with which the scheduler stops looking for a node at all, told with what to do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.dra.allocation.errors import AllocationError
from policies.dra.cel.conjuncts import conjuncts
from policies.dra.conditions import reads_of
from policies.dra.words import short
from policies.explanation.device_values import value_of
from policies.explanation.obstacles import Obstacle, ObstacleKind
from policies.kubernetes.objects import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.dra.allocation.checks import Checks
    from policies.dra.allocation.requests import Alternative, Claim
    from policies.dra.allocation.slices import Device
    from policies.dra.cel.reads import Read
    from policies.explanation.solver import Ask, Solver
    from policies.explanation.survey import Failure

__all__ = ["failure_obstacle"]

_RUNTIME = "CEL runtime error: "
_NO_KEY = re.compile(r"no such key: (.+)")


def failure_obstacle(failure: Failure, ask: Ask, solver: Solver, resources: frozenset[str]) -> Obstacle:
    """The obstacle that an error is: what fails, on which device, and how to write it instead."""
    if _RUNTIME not in failure.message:
        sentence = (
            f"Kubernetes' scheduler fails with this, whatever other nodes are like: {_first_line(failure.message)}"
        )
        return Obstacle(ObstacleKind.ALLOCATION_FAILS, sentence)
    found = _culprit(failure, ask, solver, resources)
    where, _, error = failure.message.partition(_RUNTIME)
    if found is None:
        sentence = f"a selector fails, which stops the pod on every node: {where}{_RUNTIME}{error}"
        return Obstacle(ObstacleKind.ALLOCATION_FAILS, sentence)
    device, selector = found
    checks = solver.allocator(resources).question.checks
    node = name_of(ask.nodes[failure.position])
    sentence = (
        f"a selector fails on device {device.name} of node {node}, and that stops the pod on every node: "
        f"{where}{_RUNTIME}{error}"
    )
    return Obstacle(ObstacleKind.ALLOCATION_FAILS, sentence, _guarded(selector, device, error, checks))


def _first_line(text: str) -> str:
    """The first line of an error; the others show where in the expression it is."""
    first, *others = text.splitlines() or [""]
    return f"{first} ..." if others else first


def _culprit(failure: Failure, ask: Ask, solver: Solver, resources: frozenset[str]) -> tuple[Device, str] | None:
    """The first device that a selector fails on, and the selector."""
    allocator = solver.allocator(resources)
    question = allocator.question
    devices = [
        device for pool in allocator.pools(ask.nodes[failure.position]) for device in pool.devices(question.keep_on)
    ]
    for claim in question.claims:
        for alternative in (each for request in claim.requests for each in request.alternatives):
            for device in devices:
                if question.checks.in_use(alternative, device) is None and _fails(
                    question.checks, claim, alternative, device
                ):
                    of_class = question.classes[alternative.class_name].selectors
                    return device, _failing((*of_class, *alternative.selectors), device, question.checks)
    return None


def _fails(checks: Checks, claim: Claim, alternative: Alternative, device: Device) -> bool:
    try:
        checks.selectors(claim, alternative, device)
    except AllocationError:
        return True
    return False


def _failing(selectors: Iterable[str | None], device: Device, checks: Checks) -> str:
    return next((each for each in selectors if each is not None and checks.matches(each, device) is None), "")


def _guarded(selector: str, device: Device, error: str, checks: Checks) -> str:
    """The selector's failing condition with a check before it that what it reads is there."""
    missing = _NO_KEY.fullmatch(error.strip())
    if missing is None:
        return "change the selector so that it is true or false for every device of the class"
    failing = next((each.text for each in conjuncts(selector) if checks.matches(each.text, device) is None), selector)
    read = next(
        (each for each in reads_of(failing) if each.name == missing[1] and value_of(device, each) is None), None
    )
    if read is None:
        return f"check with has() that {missing[1]} is there before it is read"
    return f"check that it is there first: {_has(read)} && {short(failing)}"


def _has(read: Read) -> str:
    name, holder = read.name or "", f'device.{read.part}["{read.domain}"]'
    quoted = name.replace('"', '\\"')
    return f"has({holder}.{name})" if name.isidentifier() else f'"{quoted}" in {holder}'
