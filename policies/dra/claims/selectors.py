"""Selectors: CEL expressions that the API server compiles, and whose cost it estimates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.decision import Place, Severity
from policies.dra.cel import MOST_COST, UNBOUNDED_COST, CelCompileError, Selector, compile_selector
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.field_errors import REQUIRED, forbidden, invalid, too_long
from policies.dra.claims.limits import MOST
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import printable
from policies.schema import closest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.cel import Features
    from policies.dra.cel.errors import Issue
    from policies.dra.claims.subject import SelectorText, Subject

_LONGEST = 10 * 1024
"""Bytes of an expression; a longer one is refused before it is compiled."""
_SHOWN = 50
"""Characters of an expression that a message shows."""
_FIELDS = ("driver", "attributes", "capacity", "allowMultipleAllocations")
_OPERATORS = {"and": "&&", "or": "||", "not": "!", "=": "==", "&": "&&", "|": "||"}
"""What people write, and how CEL spells it."""
_EXPECTED = re.compile(r"expecting \{.*IDENTIFIER.*\}")
"""The tokens that a value can begin with, which are too many to read."""
_UNDECLARED = re.compile(r"undeclared reference to '(.+?)'")
_UNDEFINED = re.compile(r"undefined field '(.+?)'")
_STRAY = re.compile(r"(?:token recognition error at: '|extraneous input '|mismatched input ')(and|or|not|[=&|])[' ]")


@CLAIMS.rule(
    "GA215",
    "Selectors compile",
    default=Severity.DENY,
    remedy="correct the expression; gpu-admission review shows the place",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateCELExpression; "
    "k8s.io/dynamic-resource-allocation/cel/compile.go",
    wrong="""
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {name: gpu, namespace: team-a}
    spec:
      devices:
        requests:
        - name: gpu
          exactly:
            deviceClassName: gpu.nvidia.com
            selectors:
            - cel: {expression: 'device.capacity["gpu.nvidia.com"].memory >= 40'}""",
    right="""
    apiVersion: resource.k8s.io/v1
    kind: ResourceClaim
    metadata: {name: gpu, namespace: team-a}
    spec:
      devices:
        requests:
        - name: gpu
          exactly:
            deviceClassName: gpu.nvidia.com
            selectors:
            - cel: {expression: 'device.capacity["gpu.nvidia.com"].memory.isGreaterThan(quantity("40Gi"))'}""",
)
def compilable_selectors(subject: Subject) -> Iterator[Problem]:
    """A selector is an expression over one `device` that is true or false, in the CEL that Kubernetes has for devices.

    It is compiled here as the API server compiles what is new: with the functions and fields that the version of the
    cluster has on by default; with those of 1.36 where the version is not known.
    """
    for path, item in _items(subject):
        if isinstance(item, dict) and "expression" not in item:
            if item.get("cel") is None:
                yield problem(path / "cel", REQUIRED, "write cel: {expression: ...}")
            elif isinstance(item["cel"], dict) and item["cel"].get("expression") is None:
                yield problem(path / "cel" / "expression", REQUIRED, "add an expression over device")
    features = subject.facts.cel_features()
    for selector in _new(subject):
        outcome = _compiled(selector.text, features)
        if isinstance(outcome, CelCompileError):
            yield from _issues(selector, outcome)


@CLAIMS.rule(
    "GA216",
    "Selectors are short and cheap enough",
    default=Severity.DENY,
    remedy="avoid loops in loops: all, exists, filter and map over what may be long",
    source="k8s.io/api/resource/v1/types.go CELSelectorExpressionMaxCost, CELSelectorExpressionMaxLength",
    wrong="""
    apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: gpu.nvidia.com}
    spec:
      selectors:
      - cel:
          expression: |
            device.attributes.all(a, device.attributes.all(b, device.attributes.all(c, device.attributes.all(d,
              a + b + c + d != "gpu.nvidia.com"))))""",
    right="""
    apiVersion: resource.k8s.io/v1
    kind: DeviceClass
    metadata: {name: gpu.nvidia.com}
    spec:
      selectors:
      - cel: {expression: 'device.driver == "gpu.nvidia.com"'}""",
)
def affordable_selectors(subject: Subject) -> Iterator[Problem]:
    """The scheduler evaluates a selector for every device, so the API server refuses what could take long.

    It estimates the cost for the largest device that there may be, not for those of this cluster.
    """
    for selector in _texts(subject):
        size = _size(selector.text)
        if size > _LONGEST:
            text = f"{too_long(_LONGEST)}, and has {size}"
            yield problem(selector.path, text, "split it into several selectors, which must all be true")
    features = subject.facts.cel_features()
    for selector in _new(subject):
        outcome = _compiled(selector.text, features)
        if not isinstance(outcome, CelCompileError) and outcome.max_cost > MOST_COST:
            cost = "has no bound" if outcome.max_cost >= UNBOUNDED_COST else f"is {outcome.max_cost}"
            why = f"too complex, exceeds cost limit: the estimate {cost}, and the limit is {MOST_COST}"
            yield problem(selector.path, forbidden(why))


def _texts(subject: Subject) -> Iterator[SelectorText]:
    """The selectors that are new: those of a claim cannot change, and those of a class count as new when any changes.

    What the API server sends it has compiled itself, and a later version of it may compile more than is known here.
    """
    if subject.served:
        return
    if subject.old is not None:
        path = subject.devices_path / "selectors"
        if subject.kind != "DeviceClass" or lookup(subject.old, path) == lookup(subject.object, path):
            return
    for selector in subject.selectors:
        # What is beyond the length that lists may have is not looked at: that would be work without a bound.
        if all(step < MOST for step in selector.path if isinstance(step, int)):
            yield selector


def _new(subject: Subject) -> Iterator[SelectorText]:
    """The new selectors that are short enough to be compiled."""
    return (selector for selector in _texts(subject) if _size(selector.text) <= _LONGEST)


def _size(text: str) -> int:
    return len(text.encode(errors="surrogatepass"))


def _compiled(text: str, features: Features) -> Selector | CelCompileError:
    """A selector, which is remembered where it was compiled before, or why it does not compile."""
    try:
        return compile_selector(text, features)
    except CelCompileError as error:
        return error


def _items(subject: Subject) -> Iterator[tuple[FieldPath, Any]]:
    lists = (
        [(subject.devices_path / "selectors", lookup(subject.object, subject.devices_path / "selectors"))]
        if subject.kind == "DeviceClass"
        else [(asked.path / "selectors", asked.fields.get("selectors")) for asked in subject.asked]
    )
    for path, items in lists:
        for index, item in enumerate(items if isinstance(items, list) else ()):
            yield path / index, item


def _issues(selector: SelectorText, error: CelCompileError) -> Iterator[Problem]:
    """All that the compiler found, each at its place in the expression."""
    if not str(error).startswith("compilation failed"):
        remedy = "compare the value, as in device.driver == ..." if "must evaluate to" in error.message else None
        yield problem(selector.path, invalid(selector.text, error.message), remedy)
        return
    for issue in error.issues:
        message = _EXPECTED.sub("expecting a value", printable(issue.message))
        text = f"compilation failed: ERROR: <input>:{issue.line}:{issue.column}: {message}"
        place = Place(selector.path, issue.line, issue.column) if issue.column > 0 else None
        yield problem(selector.path, f"{text}{_near(selector.text, issue)}", _remedy(issue.message), place=place)


def _near(text: str, issue: Issue) -> str:
    """The part of the expression that an issue is about, since nobody counts columns."""
    lines = text.split("\n")
    line = lines[issue.line - 1] if 0 < issue.line <= len(lines) else ""
    rest = printable(line[issue.column - 1 :]).strip()
    if not rest:
        return ", at its end"
    return f", at {rest[:_SHOWN].rstrip()}{'...' if len(rest) > _SHOWN else ''}"


def _remedy(message: str) -> str | None:
    """What was probably meant; None where nobody knows."""
    if stray := _STRAY.search(message):
        return f"write {_OPERATORS[stray[1]]}"
    if undefined := _UNDEFINED.search(message):
        guess = closest(undefined[1], _FIELDS)
        return f"write {guess}" if guess else f"write one of {', '.join(_FIELDS)}"
    if undeclared := _UNDECLARED.search(message):
        guess = closest(undeclared[1], ("device", *_FIELDS, "quantity", "semver"))
        path = f"device.{guess}" if guess in _FIELDS else guess
        return f"write {path}" if path else "put text in quotes; the only variable is device"
    if "kubernetes.Quantity" in message and "no matching overload" in message:
        return 'compare amounts by compareTo(quantity("40Gi")) and the like'
    return None
