"""Checks of a cluster as text and JSON, and their exit code."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.analyses.installation.cluster_checks import Check, Status
from policies.kubernetes.names import printable
from webhook.pages.report_model import Entry, Section, Tone

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_TONES = {
    Status.FAILING: Tone.BAD,
    Status.UNKNOWN: Tone.UNKNOWN,
    Status.WARNING: Tone.WARN,
    Status.OK: Tone.GOOD,
}


_TEXTS = ("name", "what", "where", "why", "remedy")


def check_sections(checks: Sequence[Check]) -> Iterator[Section]:
    """A section for each answer, the worst first."""
    for status, tone in _TONES.items():
        entries = [
            Entry(
                each.name,
                [
                    each.what,
                    *(
                        f"{title}: {text}"
                        for title, text in (("Where", each.where), ("Why", each.why), ("What to do", each.remedy))
                        if text
                    ),
                ],
            )
            for each in checks
            if each.status is status
        ]
        yield Section(entries, status.upper(), tone=tone)


def printable_checks(checks: Sequence[Check]) -> tuple[Check, ...]:
    """The checks as their JSON has them, without characters that a terminal would obey."""
    return tuple(
        Check(status=each.status, **{field: printable(getattr(each, field)) for field in _TEXTS}) for each in checks
    )


def exit_code(checks: Sequence[Check], *, of_warnings: int = 0) -> int:
    """1 if a check is failing, else 4 if one has no answer, else `of_warnings` if one warns, else 0."""
    found = {each.status for each in checks}
    if Status.FAILING in found:
        return 1
    if Status.UNKNOWN in found:
        return 4
    return of_warnings if Status.WARNING in found else 0
