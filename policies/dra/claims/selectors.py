"""Selectors: CEL expressions that the API server compiles, and whose cost it estimates."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.decision import Place, Severity
from policies.dra.cel import MOST_COST, UNBOUNDED_COST, CelCompileError, Selector, compile_selector
from policies.dra.claims.effort import EACH, MOST_TEXT, size_of
from policies.dra.claims.field_errors import REQUIRED, forbidden, invalid, too_long
from policies.dra.claims.selector_mistakes import excerpt_near, independent_issues, remedy, visible
from policies.dra.claims.subject import CLAIMS
from policies.dra.resource_claims import LONGEST_SELECTOR, is_within_lists
from policies.kubernetes.paths import FieldPath, items_at

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.dra.claims.facts import Facts
    from policies.dra.claims.subject import SelectorText, Subject


@CLAIMS.rule(
    "GA215",
    "Selectors must compile",
    default=Severity.DENY,
    remedy="correct the expression; gpu-admission review shows the place",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateCELExpression; "
    "k8s.io/dynamic-resource-allocation/cel/compile.go",
)
def compilable_selectors(subject: Subject) -> Iterator[Problem]:
    """A selector is a CEL expression over `device` that is true or false.

    It is compiled here as the API server compiles what is new: with the functions and fields that the version of the
    cluster has on by default; with those of 1.36 where the version is not known.
    """
    for owner, index, item in _items(subject):
        if isinstance(item, dict) and "expression" not in item:
            cel, path = item.get("cel"), ("selectors", index, "cel")
            if cel is None:
                yield problem(FieldPath((*owner, *path)), REQUIRED, "write cel: {expression: ...}")
            elif isinstance(cel, dict) and cel.get("expression") is None:
                yield problem(FieldPath((*owner, *path, "expression")), REQUIRED, "add an expression over device")
    for selector in _new(subject):
        outcome = _compile(selector.text, subject.facts)
        if isinstance(outcome, CelCompileError):
            yield from _issues(subject, selector, outcome)


@CLAIMS.rule(
    "GA216",
    "Selectors must be short and cheap enough",
    default=Severity.DENY,
    remedy="avoid loops in loops: all, exists, filter and map over what may be long",
    source="k8s.io/api/resource/v1/types.go CELSelectorExpressionMaxCost, CELSelectorExpressionMaxLength",
)
def affordable_selectors(subject: Subject) -> Iterator[Problem]:
    """The scheduler evaluates a selector for every device, so the API server refuses what could take long.

    It estimates the cost for the largest device that there may be, not for those of this cluster.

    A review compares selectors with the devices of the cluster within bounds, too: 12 KiB of selectors in one object, the
    rest of 16 KiB for those of the classes that it names, and a cost of 250,000. What is beyond is stored, and a warning
    says that it was not compared: the rules on what devices match do not hold for it. An object of a
    namespace that has used its share of a replica's time is not compared at all, and a warning says so.
    """
    yield from _beyond_share(subject)
    yield from _beyond_effort(subject)
    for selector in _texts(subject):
        size = _size(selector.text)
        if size > LONGEST_SELECTOR:
            text = f"{too_long(LONGEST_SELECTOR)}, and has {size}"
            yield problem(selector.path, text, "split it into several selectors, which must all be true")
    for selector in _new(subject):
        outcome = _compile(selector.text, subject.facts)
        if not isinstance(outcome, CelCompileError) and outcome.max_cost > MOST_COST:
            cost = "has no bound" if outcome.max_cost >= UNBOUNDED_COST else f"is {outcome.max_cost}"
            why = f"too complex, exceeds cost limit: the estimate {cost}, and the limit is {MOST_COST}"
            yield problem(selector.path, forbidden(why))


def _beyond_share(subject: Subject) -> Iterator[Problem]:
    """A finding that other requests of the namespace have used up the time for comparisons."""
    if subject.facts.effort.compares or subject.kind == "ComputeDomain" or not subject.has_new_selectors:
        return
    whose = f"namespace {json.dumps(subject.namespace)}" if subject.namespace else "cluster-scoped objects"
    text = f"not compared with the devices of the cluster: {whose} used up a share of the webhook's time"
    remedy = "review it with gpu-admission review, or create it again in a minute"
    yield problem(subject.devices_path, text, remedy, severity=Severity.WARN)


def comparison_notice(subject: Subject) -> Finding | None:
    """A warning if selectors were not compared with the whole cluster; complete after all rules have run."""
    effort = subject.facts.effort
    if not (effort.compares and effort.was_cut) or not subject.has_new_selectors:
        return None
    why = "not all selectors were compared with all devices of the cluster, because that takes more than a review may"
    remedy = "write shorter and simpler selectors, here and in the DeviceClasses"
    rule = CLAIMS.rule_of(affordable_selectors)
    return rule.finding(subject.devices_path, why, remedy, severity=Severity.WARN)


def _beyond_effort(subject: Subject) -> Iterator[Problem]:
    """That not all selectors are compared with the cluster, where they are too many for that."""
    size = size_of([selector.text for selector in subject.selectors])
    if size > MOST_TEXT and subject.has_new_selectors:
        text = f"all selectors come to {size} bytes, at {EACH} for each beside its own; those beyond {MOST_TEXT} are stored"
        path = subject.devices_path
        why = f"{text} without being compared with the devices of the cluster"
        yield problem(path, why, "write shorter selectors", severity=Severity.WARN)


def _texts(subject: Subject) -> Iterator[SelectorText]:
    """The new selectors: those of a claim cannot change; if any of a class changes, all count as new.

    What the API server sends it has compiled itself, and a later version of it may compile more than is known here.
    """
    if subject.served or not subject.has_new_selectors:
        return
    yield from (selector for selector in subject.selectors if is_within_lists(selector.path))


def _new(subject: Subject) -> Iterator[SelectorText]:
    """The new selectors that are short enough to be compiled."""
    return (selector for selector in _texts(subject) if _size(selector.text) <= LONGEST_SELECTOR)


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _compile(text: str, facts: Facts) -> Selector | CelCompileError:
    """A selector, which is remembered where it was compiled before, or why it does not compile."""
    try:
        return compile_selector(text, facts.cel_features())
    except CelCompileError as error:
        return error


def _items(subject: Subject) -> Iterator[tuple[FieldPath, int, Any]]:
    """The entries of `selectors`, each with the path of its owner and its index."""
    owners = (
        [(subject.devices_path, subject.devices)]
        if subject.kind == "DeviceClass"
        else [(subrequest.path, subrequest.fields) for subrequest in subject.subrequests]
    )
    for path, fields in owners:
        for index, item in enumerate(items_at(fields, ("selectors",))):
            yield path, index, item


def _issues(subject: Subject, selector: SelectorText, error: CelCompileError) -> Iterator[Problem]:
    """What the compiler found, each at its place in the expression; not what follows from another."""
    if not str(error).startswith("compilation failed"):
        wanted = "compare the value, as in device.driver == ..." if "must evaluate to" in error.message else None
        yield problem(selector.path, invalid(selector.text, error.message), wanted)
        return
    for issue in independent_issues(error.issues, selector.text):
        message = visible(issue.message)
        text = f"compilation failed: ERROR: <input>:{issue.line}:{issue.column}: {message}"
        place = Place(selector.path, issue.line, issue.column) if issue.column > 0 else None
        wanted = remedy(issue, selector, subject)
        yield problem(selector.path, f"{text}{excerpt_near(selector.text, issue)}", wanted, place=place)
