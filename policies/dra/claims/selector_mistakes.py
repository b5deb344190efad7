"""What the compiler says of a selector, for people: where it is, and what was probably meant."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING

from policies.dra.claims.cluster.nvidia_devices import KINDS, STANDARD
from policies.dra.resource_claims import MOST_ENTRIES
from policies.kubernetes.misspellings import closest
from policies.kubernetes.printable import printable
from policies.nvidia.identifiers import DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.dra.cel import Issue
    from policies.dra.claims.subject import SelectorText, Subject

__all__ = ["excerpt_near", "independent_issues", "remedy", "visible"]

_SHOWN = 50
"""Characters of an expression that a message shows."""
_MOST_ISSUES = 20
"""Of one expression; who has corrected these sees the next."""
_FIELDS = ("driver", "attributes", "capacity", "allowMultipleAllocations")
_OPERATORS = {"and": "&&", "or": "||", "not": "!", "=": "==", "&": "&&", "|": "||"}
"""What people write, and how CEL spells it."""
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


def independent_issues(issues: Sequence[Issue], text: str) -> Iterator[Issue]:
    """The issues without follow-on errors after the first bad token."""
    return islice(_of_its_own(issues, text), _MOST_ISSUES)


def _of_its_own(issues: Sequence[Issue], text: str) -> Iterator[Issue]:
    behind = None
    for issue in issues:
        unrecognized = _UNRECOGNIZED.fullmatch(issue.message)
        if unrecognized is None and (issue.line, issue.column) == behind:
            continue
        behind = _next_token(text, issue, len(unrecognized[1])) if unrecognized else None
        yield issue


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
    """What was probably meant; None if unknown."""
    message = issue.message
    if stray := _STRAY.search(message):
        return f"write {_OPERATORS[stray[1]]}"
    if (unrecognized := _UNRECOGNIZED.fullmatch(message)) and (hidden := _hidden(unrecognized[1])):
        return f"remove {hidden}, which cannot be seen"
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
    """How to write the attribute or capacity nearest to an issue that lacks its domain or name."""
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


def _hidden(text: str) -> str:
    """The code points of what cannot be seen in a text."""
    return " ".join(_code_point(each) for each in text if _is_hidden(each))


def _with_code_points(text: str) -> str:
    return "".join(_code_point(each) if _is_hidden(each) else each for each in text)


def _is_hidden(character: str) -> bool:
    return not character.isprintable() and character not in _BLANKS


def _code_point(character: str) -> str:
    return f"U+{ord(character):04X}"
