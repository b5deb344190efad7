"""Compilation of selectors: the errors of the compiler in words for people, with remedies."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from policies.cel import MOST_COST, UNBOUNDED_COST, CelCompileError, Selector, compile_selector
from policies.claims.claim_subject import CLAIMS_AND_CLASSES
from policies.claims.field_errors import REQUIRED, forbidden, invalid, too_long
from policies.claims.nvidia_attributes import KINDS, STANDARD
from policies.devices.effort import EACH, MOST_TEXT, size_of
from policies.devices.resource_claims import MOST_ENTRIES, is_within_lists
from policies.kubernetes.names import closest, printable
from policies.kubernetes.objects import items_at
from policies.kubernetes.resourceslices import LONGEST_SELECTOR
from policies.nvidia.identifiers import DRIVER
from policies.rules.checks import Problem
from policies.rules.decision import Place, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.cel import Issue
    from policies.claims.claim_subject import SelectorText, Subject
    from policies.rules.decision import Finding


_SHOWN = 50
"""Characters of an expression that a message shows."""
_MOST_ISSUES = 20
"""Of one expression; who has corrected these sees the next."""
_FIELDS = ("driver", "attributes", "capacity", "allowMultipleAllocations")
_OPERATORS = {"and": "&&", "or": "||", "not": "!", "=": "==", "&": "&&", "|": "||"}
"""Operators as people write them, and as CEL spells them."""
_EXPECTED = re.compile(r"expecting \{.*IDENTIFIER.*\}")
"""The tokens that a value can begin with, which are too many to read."""
_UNDECLARED = re.compile(r"undeclared reference to '(.+?)'")
_UNDEFINED = re.compile(r"undefined field '(.+?)'")
_STRAY = re.compile(r"(?:token recognition error at: '|extraneous input '|mismatched input ')(and|or|not|[=&|])[' ]")
_UNRECOGNIZED = re.compile(r"Syntax error: token recognition error at: '(.*)'", re.DOTALL)
_BLANKS = " \t\n\r\f"
_OF_A_MAP = re.compile(r"found no matching overload for '.*' applied to '.*map\(string, (any|kubernetes\.Quantity)\)")
_WITHOUT_DOMAIN = re.compile(
    r"""\bdevice\.(?P<part>attributes|capacity)(?:\.(?P<field>\w+)|\[(["'])(?P<key>[^"']+)\3\])"""
    r"""(?!\w|\s*[\[?(]|\s*\.\s*\w+\b(?!\s*\())"""
)
"""A map of a domain with nothing behind it, unless that is a function."""
_DRIVER = re.compile(r"""\bdevice\.driver\s*==\s*(["'])([^"']+)\1""")
_EXAMPLES = {"attributes": "productName", "capacity": "memory"}


def independent_issues(issues: Sequence[Issue], text: str) -> list[Issue]:
    """The issues without follow-on errors after the first bad token."""
    behind = None
    independent = []
    for issue in issues:
        unrecognized = _UNRECOGNIZED.fullmatch(issue.message)
        if unrecognized is None and (issue.line, issue.column) == behind:
            continue
        behind = _next_token(text, issue, len(unrecognized[1])) if unrecognized else None
        independent.append(issue)
        if len(independent) == _MOST_ISSUES:
            break
    return independent


def _next_token(text: str, issue: Issue, length: int) -> tuple[int, int]:
    """Line and column of what comes behind a part of a text."""
    lines = text.split("\n")
    offset = sum(len(line) + 1 for line in lines[: issue.line - 1]) + issue.column - 1 + length
    while offset < len(text) and text[offset] in _BLANKS:
        offset += 1
    before = text[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")


def visible(message: str) -> str:
    """A message of the compiler on one line, without lists of tokens, invisible characters as code points."""
    return _EXPECTED.sub("expecting a value", printable(_with_code_points(message)))


def excerpt_near(text: str, issue: Issue) -> str:
    """The part of the expression that an issue is about."""
    lines = text.split("\n")
    line = lines[issue.line - 1] if 0 < issue.line <= len(lines) else ""
    # What is not shown is not looked at: a long line may have thousands of issues.
    rest = printable(_with_code_points(line[max(issue.column - 1, 0) :][: 4 * _SHOWN])).strip()
    if not rest:
        return ", at its end"
    return f", at {rest[:_SHOWN].rstrip()}{'...' if len(rest) > _SHOWN else ''}"


def remedy(issue: Issue, selector: SelectorText, subject: Subject) -> str | None:
    """The remedy by what was probably meant; None if unknown."""
    message = issue.message
    if stray := _STRAY.search(message):
        return f"write {_OPERATORS[stray[1]]}"
    if unrecognized := _UNRECOGNIZED.fullmatch(message):
        hidden = [_with_code_points(each) for each in unrecognized[1] if not (each.isprintable() or each in _BLANKS)]
        if hidden:
            return f"remove {' '.join(hidden)}, which cannot be seen"
    if undefined := _UNDEFINED.search(message):
        guess = closest(undefined[1], _FIELDS)
        return f"write {guess}" if guess else f"write one of {', '.join(_FIELDS)}"
    if undeclared := _UNDECLARED.search(message):
        guess = closest(undeclared[1], ("device", *_FIELDS, "quantity", "semver"))
        path = f"device.{guess}" if guess in _FIELDS else guess
        return f"write {path}" if path else "put text in quotes; the only variable is device"
    if _OF_A_MAP.search(message) and (written := _with_domain(issue, selector, subject)):
        return written
    if "kubernetes.Quantity" in message and "no matching overload" in message:
        return 'compare amounts by compareTo(quantity("40Gi")) and the like'
    return None


def _with_domain(issue: Issue, selector: SelectorText, subject: Subject) -> str | None:
    """The remedy for the attribute or capacity nearest to an issue that lacks its domain or name."""
    start = sum(len(line) + 1 for line in selector.text.split("\n")[: issue.line - 1]) + issue.column - 1
    found = min(
        _WITHOUT_DOMAIN.finditer(selector.text),
        key=lambda match: min(abs(match.start() - start), abs(match.end() - start)),
        default=None,
    )
    if found is None:
        return None
    part, written = found["part"], found["field"] or found["key"]
    domain, slash, name = written.partition("/")
    if not slash:
        domain, name = (written, "") if "." in written else (_domain_of(part, written, selector, subject), written)
    path = f'device.{part}["{printable(domain)}"].{printable(name or _EXAMPLES[part])}'
    compared = '.compareTo(quantity("40Gi")) >= 0' if part == "capacity" else ""
    return f"write {path}{compared}{'' if name and not compared else ' or the like'}"


def _domain_of(part: str, name: str, selector: SelectorText, subject: Subject) -> str:
    """The domain that a name is probably in: the driver of the class, else NVIDIA's."""
    if any((part, STANDARD, name) in (*kind.always, *kind.sometimes) for kind in KINDS):
        return STANDARD
    if selector.subrequest is None:
        texts: Iterable[str] = (each.text for each in subject.selectors[:MOST_ENTRIES])
    else:
        texts = (subject.facts.class_selectors(selector.subrequest.device_class) or ())[:MOST_ENTRIES]
    return next((driver[2] for text in texts if (driver := _DRIVER.search(text))), DRIVER)


def _with_code_points(text: str) -> str:
    return "".join(f"U+{ord(each):04X}" if not (each.isprintable() or each in _BLANKS) else each for each in text)


@CLAIMS_AND_CLASSES.rule(
    "GA215",
    "Selectors must compile",
    remedy="correct the expression",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateCELExpression; "
    "k8s.io/dynamic-resource-allocation/cel/compile.go",
)
def compilable_selectors(subject: Subject) -> Iterator[Problem]:
    """A selector is a CEL expression over `device` that is true or false.

    It is compiled here as the API server compiles what is new: with the functions and fields that the version of the
    cluster has on by default; with those of 1.36 where the version is not known.
    """
    owners = [(subrequest.path, subrequest.fields) for subrequest in subject.subrequests]
    for owner, fields in [(subject.devices_path, subject.devices)] if subject.kind == "DeviceClass" else owners:
        for index, item in enumerate(items_at(fields, ("selectors",))):
            if isinstance(item, dict) and "expression" not in item:
                cel, path = item.get("cel"), owner / "selectors" / index / "cel"
                if cel is None:
                    yield Problem(
                        path, REQUIRED, 'write a condition such as cel: {expression: device.driver == "gpu.nvidia.com"}'
                    )
                elif isinstance(cel, dict) and cel.get("expression") is None:
                    yield Problem(path / "expression", REQUIRED, "add an expression over device")
    for selector, outcome in _compile_new(subject):
        if isinstance(outcome, CelCompileError):
            yield from _issues(subject, selector, outcome)


@CLAIMS_AND_CLASSES.rule(
    "GA216",
    "Selectors must be short and cheap enough",
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
    effort, path = subject.effort, subject.devices_path
    if not effort.compares and subject.kind != "ComputeDomain" and subject.has_new_selectors:
        whose = f"namespace {json.dumps(subject.namespace)}" if subject.namespace else "cluster-scoped objects"
        text = f"not compared with the devices of the cluster: {whose} used up a share of the webhook's time"
        remedy = "review it with gpu-admission review, or create it again in a minute"
        yield Problem(path, text, remedy, severity=Severity.WARN)
    size = size_of([selector.text for selector in subject.selectors])
    if size > MOST_TEXT and subject.has_new_selectors:
        text = f"all selectors come to {size} bytes, at {EACH} for each beside its own; those beyond {MOST_TEXT} are stored"
        why = f"{text} without being compared with the devices of the cluster"
        yield Problem(path, why, "write shorter selectors", severity=Severity.WARN)
    for selector, size in _texts(subject):
        if size > LONGEST_SELECTOR:
            text = f"{too_long(LONGEST_SELECTOR)}, and has {size}"
            yield Problem(selector.path, text, "split it into several selectors, which must all be true")
    for selector, outcome in _compile_new(subject):
        if not isinstance(outcome, CelCompileError) and outcome.max_cost > MOST_COST:
            cost = "has no bound" if outcome.max_cost >= UNBOUNDED_COST else f"is {outcome.max_cost}"
            why = f"too complex, exceeds cost limit: the estimate {cost}, and the limit is {MOST_COST}"
            yield Problem(selector.path, forbidden(why))


def comparison_notice(subject: Subject) -> Finding | None:
    """A warning if selectors were not compared with the whole cluster; complete after all rules have run."""
    effort = subject.effort
    if not (effort.compares and effort.was_cut) or not subject.has_new_selectors:
        return None
    why = "not all selectors were compared with all devices of the cluster, because that takes more than a review may"
    remedy = "write shorter and simpler selectors, here and in the DeviceClasses"
    return affordable_selectors.rule.finding(subject.devices_path, why, remedy, severity=Severity.WARN)


def _texts(subject: Subject) -> Iterator[tuple[SelectorText, int]]:
    """The new selectors with their sizes in bytes; if any of a class changes, all of them count as new.

    The API server has compiled what it sends, and a later version of it may compile more than is known here.
    """
    if not subject.served and subject.has_new_selectors:
        for selector in subject.selectors:
            if is_within_lists(selector.path):
                yield selector, len(selector.text.encode(errors="surrogatepass"))


def _compile_new(subject: Subject) -> Iterator[tuple[SelectorText, Selector | CelCompileError]]:
    """The new selectors that are short enough, each compiled or with the error of the compiler."""
    for selector, size in _texts(subject):
        if size <= LONGEST_SELECTOR:
            try:
                yield selector, compile_selector(selector.text, subject.facts.cel_features())
            except CelCompileError as error:
                yield selector, error


def _issues(subject: Subject, selector: SelectorText, error: CelCompileError) -> Iterator[Problem]:
    """The errors of the compiler, each at its place in the expression, without follow-on errors."""
    if not str(error).startswith("compilation failed"):
        wanted = "compare the value, as in device.driver == ..." if "must evaluate to" in error.message else None
        yield Problem(selector.path, invalid(selector.text, error.message), wanted)
        return
    for issue in independent_issues(error.issues, selector.text):
        message = visible(issue.message)
        text = f"compilation failed: ERROR: <input>:{issue.line}:{issue.column}: {message}"
        place = Place(selector.path, issue.line, issue.column) if issue.column > 0 else None
        wanted = remedy(issue, selector, subject)
        yield Problem(selector.path, f"{text}{excerpt_near(selector.text, issue)}", wanted, place=place)
