"""The wait list as a section of a report for terminals."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.names import format_age, with_capital, with_full_stop
from webhook.pages.report_model import Column, Lines, Section, Table, numbers

if TYPE_CHECKING:
    from policies.analyses.wait_list import WaitList
    from webhook.pages.report_model import Cell


def wait_section(waiting: WaitList, most: int | None = None) -> Section:
    """The pods and workloads that wait for GPUs, with counts by reason above them.

    Args:
        waiting: The wait list.
        most: The most rows; all if None.
    """
    rows: list[list[Cell]] = [
        [
            row.label,
            row.wants or "?",
            format_age(waiting.age_of(row)) or "?",
            row.fit_text,
            [row.why, *([f"- {row.remedy}"] if row.remedy else [])],
        ]
        for row in waiting.rows
    ]
    columns = [
        Column("WAITING", wraps=True, share=4),
        Column("EACH WANTS", wraps=True, share=5),
        *numbers("FOR", "FIT NOW"),
        Column("WHY, AND WHAT WOULD HELP", wraps=True),
    ]
    return Section([Lines([with_full_stop(with_capital(waiting.summary))]), Table(columns, rows, most)])
