"""Quotas for people: a bar for each limit, who holds what, what is on its way, and what is wrong."""

from __future__ import annotations

from collections import Counter
from textwrap import wrap
from typing import TYPE_CHECKING

import click

from policies.kubernetes.printable import printable
from policies.quota.limits.amounts import spoken
from policies.quota.report.report import QuotaState
from webhook.cli.columns import GAP, Column, table
from webhook.cli.explain_text import terminal_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from datetime import timedelta
    from fractions import Fraction

    from policies.quota.charges import Amounts, Unit
    from policies.quota.report.report import LimitUse, QuotaReport
    from webhook.cli.quotas import QuotasTold

__all__ = ["text"]

_BAR = 20
"""Cells of a bar."""
_MOST_SHOWN = 20
"""Holders and reservations of a quota; all of them are in JSON."""
_COLOURS = {
    QuotaState.WITHIN: "green",
    QuotaState.OVER: "red",
    QuotaState.UNCOUNTED: "yellow",
    QuotaState.UNREADABLE: "red",
}
_FAILING = {
    True: "The namespace enforces it: while it cannot be checked, nothing that gets GPUs is admitted",
    False: "The namespace does not enforce it: while it cannot be checked, everything is admitted",
    None: "Whether the namespace enforces it is not known",
}
_AGES = ((86400, "d"), (3600, "h"), (60, "m"), (1, "s"))


def text(told: QuotasTold, width: int | None = None) -> str:
    """All reports; of several, how many there are of each state at the end.

    Args:
        told: The reports.
        width: Columns to stay within; None for those of the terminal.
    """
    width = terminal_width() if width is None else width
    parts = ["\n".join(_lines(report, width)) for report in told.reports] or [_none(told.namespace)]
    notes = [line for note in told.notes for line in _paragraph(f"Note: {note}.", width)]
    summary = [_summary(told.reports)] if len(told.reports) > 1 else []
    return "\n\n".join([*parts, *(["\n".join(notes)] if notes else []), *summary])


def _none(namespace: str) -> str:
    if namespace:
        return f"Namespace {namespace} has no GPUQuota, so nothing is limited there; who holds GPUs is not shown."
    return "There is no GPUQuota, so no namespace is limited; who holds GPUs is not shown."


def _summary(reports: Sequence[QuotaReport]) -> str:
    counts = Counter(report.state for report in reports)
    return f"{len(reports)} quotas: {', '.join(f'{counts[state]} {state}' for state in QuotaState if counts[state])}"


def _lines(report: QuotaReport, width: int) -> Iterator[str]:
    state = click.style(str(report.state), fg=_COLOURS[report.state], bold=True)
    yield f"{click.style(printable(f'GPUQuota {report.namespace}/{report.name}'), bold=True)}  {state}"
    if report.quota is None:
        yield from _paragraph(_unreadable(report), width)
        for path, said in report.problems:
            yield from _item(f"{path}: {said}" if path else said, width)
    else:
        if not report.exempt:
            yield from _paragraph(_modes(report), width)
        for remark in report.remarks:
            yield from _paragraph(f"Warning: {remark}.", width)
        yield ""
        yield from _limits(report.limits)
        yield from _holders(report, width)
        yield from _reservations(report, width)
    yield from _conditions(report, width)


def _unreadable(report: QuotaReport) -> str:
    if report.enforced:
        return "It cannot be read, and the namespace enforces it, so nothing that gets GPUs is admitted."
    return "It cannot be read, so it holds nothing back."


def _modes(report: QuotaReport) -> str:
    """The mode, and what happens when the quota cannot be checked."""
    warns = report.quota is not None and report.quota.mode == "Warn"
    fate = "admitted with a warning (mode Warn)" if warns else "refused (mode Enforce)"
    return f"What would be over a limit is {fate}. {_FAILING[report.enforced]}."


def _limits(limits: Sequence[LimitUse]) -> Iterator[str]:
    cells = [
        [
            each.limit.name,
            _bar(each),
            _amount(each.limit.unit, each.used),
            _amount(each.limit.unit, each.reserved),
            _amount(each.limit.unit, each.left),
            spoken(each.limit.unit, each.limit.hard),
        ]
        for each in limits
    ]
    numbers = [_column(title, (row[place] for row in cells), right=True) for place, title in _NUMBERS]
    columns = [_column("LIMIT", (row[0] for row in cells)), Column("USE", _BAR + 2), *numbers]
    yield from table([*columns, Column("HARD", 0)], [[[cell] for cell in row] for row in cells])


_NUMBERS = ((2, "USED"), (3, "RESERVED"), (4, "LEFT"))


def _bar(use: LimitUse) -> str:
    """How much of a limit is used and reserved; one that is over breaks through its end."""
    if use.used is None:
        return f"[{'?' * _BAR}]"
    whole = max(use.limit.hard, use.taken)
    used, taken = (_cells(amount, whole) for amount in (use.used, use.taken))
    bar = click.style("#" * used, fg="red" if use.is_over else "green")
    return f"[{bar}{click.style('=' * (taken - used), fg='cyan')}{'.' * (_BAR - taken)}{'>' if use.is_over else ']'}"


def _cells(amount: Fraction, whole: Fraction) -> int:
    """Of nothing none, of anything at least one, and all only of the whole."""
    if not amount:
        return 0
    return _BAR if amount >= whole else min(max(round(_BAR * amount / whole), 1), _BAR - 1)


def _holders(report: QuotaReport, width: int) -> Iterator[str]:
    if report.holders is None:
        return
    yield ""
    if not report.holders:
        yield "Nothing holds anything of it."
        return
    shown = report.holders[:_MOST_SHOWN]
    rows = [(each.name, _age(each.age), _amounts(report, each.amounts)) for each in shown]
    yield from _listing(("HELD BY", "AGE", "HOLDS"), rows, width)
    yield from _left_out(len(report.holders))


def _reservations(report: QuotaReport, width: int) -> Iterator[str]:
    if not report.reservations:
        return
    yield ""
    rows = []
    for each in report.reservations[:_MOST_SHOWN]:
        owner = "pod" if each.of_kind == "Pod" else each.of_kind
        counted = f", counted with {owner} {each.of}" if each.of else ""
        takes = _amounts(report, each.amounts) or "nothing of a limit"
        name = f"{each.kind} {each.name}"
        seen = f"{' and '.join(each.waits_for)} {'is' if len(each.waits_for) == 1 else 'are'} seen"
        rows.append((name, _age(each.age), f"{takes}{counted}; until {seen}"))
    yield from _listing(("ON ITS WAY", "AGE", "RESERVES"), rows, width)
    yield from _left_out(len(report.reservations))


def _left_out(count: int) -> Iterator[str]:
    if count > _MOST_SHOWN:
        yield f"and {count - _MOST_SHOWN:,} more; -o json tells them"


def _listing(titles: tuple[str, str, str], rows: Sequence[tuple[str, str, str]], width: int) -> Iterator[str]:
    """A table of names, ages and sentences; without ages where nothing tells any."""
    names = [printable(name) for name, _, _ in rows]
    ages = [age for _, age, _ in rows]
    columns = [_column(titles[0], names), *([_column(titles[1], ages, right=True)] if any(ages) else [])]
    room = max(width - sum(column.width + GAP for column in columns), width // 3)
    cells = [
        [[name], *([[age]] if any(ages) else []), _paragraph(said, room)]
        for name, (_, age, said) in zip(names, rows, strict=True)
    ]
    yield from table([*columns, Column(titles[2], room)], cells)


def _conditions(report: QuotaReport, width: int) -> Iterator[str]:
    if not report.conditions:
        return
    yield ""
    for each in report.conditions:
        is_so = {"True": "yes", "False": "no"}.get(each.status, "unknown")
        reason = f" ({each.reason})" if each.reason else ""
        message = f": {each.message}" if each.message else ""
        yield from _paragraph(f"{each.type} {is_so}{reason}{message}", width)


def _amounts(report: QuotaReport, amounts: Amounts) -> str:
    """What something takes, in the order of the limits."""
    taken = [(each.limit, amounts.get(each.limit.name)) for each in report.limits]
    return ", ".join(f"{limit.name} {_amount(limit.unit, amount)}" for limit, amount in taken if amount)


def _amount(unit: Unit, amount: Fraction | None) -> str:
    if amount is None:
        return "?"
    return spoken(unit, amount) if unit == "memory" else str(amount)


def _age(age: timedelta | None) -> str:
    """An age as kubectl shortens it, to its largest unit; nothing where objects do not tell it, as manifests."""
    seconds = int(age.total_seconds()) if age else 0
    size, suffix = next((each for each in _AGES if seconds >= each[0]), (1, ""))
    return f"{seconds // size}{suffix}" if suffix else ""


def _column(title: str, texts: Iterable[str], *, right: bool = False) -> Column:
    return Column(title, max(len(title), *map(len, texts)), right=right)


def _paragraph(text: str, width: int) -> list[str]:
    """Names with hyphens stay whole, because people copy them."""
    return wrap(printable(text), width, break_on_hyphens=False)


def _item(text: str, width: int) -> list[str]:
    return wrap(printable(text), width, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False)
