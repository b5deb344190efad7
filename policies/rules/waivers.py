"""Reported findings: each cause once, and waived findings with the reasons of their waivers.

A waiver is an annotation of an object that ignores findings on it, each with a reason: `gpu-admission.io/ignore: GA405
because the GPUs arrive on Monday`, with one rule on each line or separated by semicolons. A waived finding stays in the
decision and is reported with its reason. A finding that refuses something is never waived.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import IGNORE, format_list, shorten, shown
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.view import UNKNOWN
from policies.rules.checks import EVERY, Problem
from policies.rules.decision import Finding, Rule, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.view import ClusterView
    from policies.rules.checks import RuleBook
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy


_COUNT = re.compile(r" \([0-9,]+ (?:pod templates|objects)\)$")
"""The count of pod templates in an object, which the count of objects replaces."""
_MISSPELLINGS = ("GA405", "GA409")
"""Rules on misspelt names, which explain why nothing matches."""
_WITHOUT_MATCH = ("GA313", "GA404")
"""Rules that report that nothing matches a name in the object."""
_Cause = tuple[Rule, Severity, str, str]


def once_per_cause(findings: Sequence[Sequence[Finding]], noun: str) -> list[tuple[Finding, ...]]:
    """The findings of several subjects, without those that an earlier subject has from the same cause.

    The finding that stays says how many subjects there are: `(3 pod templates)`. Findings that refuse something stay
    where they are, and so do those of rules about the subject itself, because each of them is a place to correct.

    Args:
        findings: The findings of each subject.
        noun: What the subjects are, in the singular.
    """
    causes = [dict.fromkeys(filter(None, map(_shared_cause, each))) for each in findings]
    counts = Counter(cause for each in causes for cause in each)
    reported: set[_Cause] = set()
    kept = []
    for each in findings:
        mine = []
        for finding in each:
            cause = _shared_cause(finding)
            if cause is None:
                mine.append(finding)
            elif cause not in reported:
                reported.add(cause)
                count = counts[cause]
                text = f"{_COUNT.sub('', finding.message)} ({count:,} {noun}s)"
                mine.append(replace(finding, message=text) if count > 1 else finding)
        kept.append(tuple(mine))
    return kept


def without_repeats(findings: tuple[Finding, ...], document: Any) -> tuple[Finding, ...]:
    """The findings on a pod, with a misspelt name and the finding that nothing matches it merged into one.

    The finding that nothing matches says what exists; it gets the path and the remedy of the misspelt product or label.
    Both stay if settings refuse a misspelt name, or if the wish names other products too.

    Args:
        findings: With the severities of the settings.
        document: The pod.
    """
    misspelt = [found for found in findings if found.rule.id in _MISSPELLINGS]
    if len(misspelt) != 1 or misspelt[0].severity is Severity.DENY:
        return findings
    (cause,) = misspelt
    written = lookup(document, cause.path)
    is_alone = isinstance(written, list) or (
        isinstance(written, str) and cause.message.startswith(f'"{written.strip()}" ')
    )
    follows = {id(found) for found in findings if is_alone and _follows(found, cause)}
    if not follows:
        return findings
    return tuple(
        dict.fromkeys(
            replace(found, path=cause.path, remedy=cause.remedy) if id(found) in follows else found
            for found in findings
            if found is not cause
        )
    )


def _follows(found: Finding, cause: Finding) -> bool:
    """True if a finding says that nothing matches because of a misspelling.

    A finding of conversion is about the whole request, one of placement about the field at its path.
    """
    return found.rule.id in _WITHOUT_MATCH and (found.rule.subject == "conversion" or found.path == cause.path)


def _shared_cause(finding: Finding) -> _Cause | None:
    """The part that findings of one cause have in common; None for a finding about the object itself."""
    if finding.severity is Severity.DENY or finding.waived or not finding.rule.shared_cause:
        return None
    return finding.rule, finding.severity, _COUNT.sub("", finding.message), finding.remedy


MAX_ANNOTATION_LENGTH = 4096
"""Maximum characters of the annotation; a longer one waives nothing."""
MAX_REASON_LENGTH = 240
"""Characters of a reason that are kept."""
_MOST_PROBLEMS = 5
_PATH = FieldPath(["metadata", "annotations", IGNORE])
_SEPARATORS = re.compile(r"[;\n]")
_DECISIVE_KINDS = ("Namespace", "Node", "ResourceSlice", "DeviceClass")
"""Kinds without which many rules report nothing."""

_ENTRIES = "write one entry on each line, such as GA405 because the GPUs arrive on Monday"


@dataclass(frozen=True, slots=True)
class Waivers:
    """The waivers of an annotation, and its problems."""

    reasons: Mapping[Rule, str]
    """By rule; on one line, printable."""
    problems: tuple[Problem, ...] = ()
    """At most a few, whatever the annotation has."""


def parse_waivers(text: Any, rules: RuleBook) -> Waivers:
    """The waivers of an annotation; nothing is waived by an entry that cannot be read.

    Args:
        text: The value of the annotation.
        rules: All rules.
    """
    if not isinstance(text, str):
        return Waivers({}, (Problem(_PATH, "must be a string"),))
    if len(text) > MAX_ANNOTATION_LENGTH:
        return Waivers(
            {},
            (
                Problem(
                    _PATH, f"has {len(text):,} characters and at most {MAX_ANNOTATION_LENGTH:,} are read", "shorten it"
                ),
            ),
        )
    reasons: dict[Rule, str] = {}
    problems: list[Problem] = []
    for entry in filter(None, (" ".join(part.split()) for part in _SEPARATORS.split(text))):
        name, _, rest = entry.partition(" ")
        because, _, reason = rest.partition(" ")
        known = rules.get(name)
        if known is None:
            remedy = f"{_ENTRIES}; gpu-admission rules lists the rules"
            problems.append(Problem(_PATH, f"unknown rule {shown(name)}", remedy))
        elif known in (valid_waivers.rule, matching_waiver.rule):
            problems.append(Problem(_PATH, f"{known} is about waivers and cannot be ignored", f"remove {known} here"))
        elif because != "because" or not reason:
            problems.append(Problem(_PATH, f"{known} has no reason", f"write {known} because REASON"))
        elif known in reasons:
            problems.append(Problem(_PATH, f"{known} has two reasons", f"write one reason for {known}"))
        else:
            reasons[known] = shorten(reason, MAX_REASON_LENGTH)
    if len(problems) > _MOST_PROBLEMS:
        problems = [*problems[:_MOST_PROBLEMS], Problem(_PATH, f"more than {_MOST_PROBLEMS} entries are invalid")]
    return Waivers(reasons, tuple(problems))


def has_waivers(request: Request) -> bool:
    """True if an object has the annotation, whatever it contains."""
    return lookup(request.object, _PATH) is not None


def with_waivers(
    findings: tuple[Finding, ...], request: Request, settings: GPUAdmissionPolicy, rules: RuleBook
) -> tuple[Finding, ...]:
    """The findings on an object, with the reasons of waived ones, and findings on invalid waivers.

    Applying it twice changes nothing.
    """
    waivers = parse_waivers(lookup(request.object, _PATH), rules)
    kept: list[Finding] = []
    refused: dict[Rule, None] = {}
    for found in findings:
        reason = waivers.reasons.get(found.rule, "")
        if reason and (found.severity is Severity.DENY or found.announces_refusal):
            refused[found.rule] = None
            kept.append(found)
        else:
            kept.append(replace(found, waived=reason) if reason and not found.waived else found)
    invalid = settings.judge(valid_waivers(waivers.problems, refused), request.namespace)
    return tuple(dict.fromkeys((*kept, *invalid)))


def unmatched_waivers(
    findings: Iterable[Finding],
    request: Request,
    view: ClusterView,
    settings: GPUAdmissionPolicy,
    rules: RuleBook,
) -> tuple[Finding, ...]:
    """Findings on waivers that match none of the findings on an object.

    Args:
        findings: All findings on the object.
        request: With the object.
        view: The cluster; if it does not know the kinds that decide most rules, the severity is audit.
        settings: The administrator's settings.
        rules: All rules.
    """
    reported = {found.rule for found in findings}
    unmatched = [
        waived for waived in parse_waivers(lookup(request.object, _PATH), rules).reasons if waived not in reported
    ]
    if not unmatched:
        return ()
    return settings.judge(_findings_on_unmatched(unmatched, request, view, settings), request.namespace)


def _findings_on_unmatched(
    rules: Iterable[Rule], request: Request, view: ClusterView, settings: GPUAdmissionPolicy
) -> Iterator[Finding]:
    missing = [kind for kind in _DECISIVE_KINDS if view.list(kind) is UNKNOWN]
    for each in rules:
        if settings.severity_of(each.id, each.default, request.namespace) is Severity.DENY:
            yield from valid_waivers((), (each,))
        else:
            yield from matching_waiver(each, missing)


@EVERY.rule(
    "GA708",
    "A waiver must name a rule that does not refuse the object, and a reason",
    default=Severity.WARN,
    remedy=_ENTRIES,
    source="docs/review.md",
)
def valid_waivers(problems: Iterable[Problem], refused: Iterable[Rule]) -> Iterator[Problem]:
    """The annotation gpu-admission.io/ignore waives findings of severity warn or audit.

    The reason tells readers whether the waiver is still right. The administrator decides what is refused, so the
    author of an object cannot waive it.
    """
    yield from problems
    for each in refused:
        remedy = f"correct what {each} reports, and remove {each} here"
        yield Problem(_PATH, f"{each} is a refusal and cannot be ignored", remedy)


@EVERY.rule(
    "GA709",
    "A waiver must match a finding",
    default=Severity.WARN,
    remedy="remove it from the annotation",
    source="docs/review.md",
)
def matching_waiver(waived: Rule, missing: Sequence[str]) -> Iterator[Problem]:
    """A waiver that matches nothing is a leftover, or names the wrong rule.

    It would hide the next finding of that rule. Only an offline review sees all findings on an object together.
    Without the objects of the cluster many rules report nothing, so the severity is then audit. Admission says
    nothing: the state of the cluster may change, and the waiver match again.
    """
    text = f"{waived} matches no finding"
    if missing:
        text += f", but this review has no objects of kind {format_list(missing)}"
        remedy = "review with --cluster or --live, with the right to list them"
        yield Problem(_PATH, text, remedy, severity=Severity.AUDIT)
    else:
        yield Problem(_PATH, text)
