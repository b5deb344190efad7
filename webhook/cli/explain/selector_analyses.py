"""Analyses of selectors: reads the selectors and the cluster, and prints the results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from policies.analyses.selectors import (
    Analysis,
    AnalysisJSON,
    DeviceVerdict,
    Truth,
    analysis_json,
    analyze,
    selector_set_of_expression,
    selector_sets_of,
)
from policies.kubernetes.names import format_count, format_list, printable
from policies.kubernetes.resourceslices import LONGEST_SELECTOR
from webhook.cli.folders import SUFFIXES
from webhook.cli.manifest_reader import ManifestReader, Problem
from webhook.cli.progress import current_progress
from webhook.cli.settings import read_facts
from webhook.cli.text_layout import output_text
from webhook.cli.user_files import read_file, reason_of
from webhook.pages.report_model import Bullets, Column, Lines, Paragraph, Section, Table, Tone, notes, numbers
from webhook.pages.text_report import render_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.analyses.selectors import Analysis, DeviceRow, SelectorSet
    from webhook.cli.cluster_options import ClusterOptions
    from webhook.cli.settings import RunningFacts


AnalysesJSON = list[AnalysisJSON]
"""The output of `gpu-admission cel -o json`."""
_MOST_SHOWN = 20
"""Rows of a table; JSON has all of them."""
_MOST_BYTES = 4 * LONGEST_SELECTOR
"""Bytes of a file with an expression, with blanks; longer expressions than the API server allows are refused later."""
_SIGNS = {Truth.TRUE: "+", Truth.FALSE: "-", Truth.FAILS: "!", Truth.SKIPPED: "."}


class SelectorInput(NamedTuple):
    """The selectors to analyze, and the cluster."""

    selectors: str
    """A file, a folder, `-`, or an expression."""
    edit: str | None
    """A file with an expression, or an expression; None for no comparison."""
    device_class: str
    """The class whose devices an expression is evaluated on; empty for all devices."""
    request: str
    """The only request to analyze; empty for all."""
    source: ClusterOptions
    """The cluster."""


def analyses_of(given: SelectorInput, running: RunningFacts | None) -> list[Analysis]:
    """Read everything, then analyze the selectors of each request and class.

    Args:
        given: What to analyze.
        running: A running cluster, instead of the files of one.

    Raises:
        UnreadableInputError: Files have problems.
        click.UsageError: The input has no selectors, or options do not fit it.
    """
    reader = ManifestReader()
    files = read_facts(given.source, running, reader)
    selector_sets = _selector_sets(given, reader)
    edit = None if given.edit is None else _expression(given.edit, reader)
    reader.check()
    for line in reader.others.lines:
        current_progress().print_line(line)
    source = printable(given.selectors)
    if not selector_sets:
        raise click.UsageError(
            f"nothing to analyze: no ResourceClaim, ResourceClaimTemplate or DeviceClass in {source}"
        )
    names = list(dict.fromkeys(each.request for each in selector_sets if each.request))
    chosen = [each for each in selector_sets if not given.request or each.request == given.request]
    if not chosen:
        there = f"; it has {format_list(names)}" if names else ""
        raise click.UsageError(f"no request {printable(given.request)} in {source}{there}")
    if given.edit is not None and len(chosen) > 1:
        raise click.UsageError(
            f"--edit is for one request or class, and {source} has {len(chosen)}; choose one by --request"
        )
    selector_sets = chosen
    view = files.view()
    return [
        analyze(each, view, files.settings, edit)
        for each in current_progress().count("evaluating selectors", selector_sets)
    ]


def _selector_sets(given: SelectorInput, reader: ManifestReader) -> list[SelectorSet]:
    source = given.selectors
    is_manifest = source.endswith(SUFFIXES) and (_exists(source) or not set(source) & set("\"' "))
    if not (source == "-" or is_manifest or (_exists(source) and Path(source).is_dir())):
        return [selector_set_of_expression(_expression(source, reader), given.device_class)]
    if given.device_class:
        raise click.UsageError("--class is for an expression; leave it out: the requests in a file name their class")
    return [each_set for each in reader.manifests([source]) for each_set in selector_sets_of(each.object)]


def _exists(source: str) -> bool:
    """True if there is a file or folder of this name; an expression may be longer than a name can be."""
    try:
        return bool(source) and Path(source).exists()
    except (OSError, ValueError):
        return False


def _expression(source: str, reader: ManifestReader) -> str:
    """The expression of a file, or the argument itself; problems go to the reader."""
    if not _exists(source):
        return source
    try:
        content = read_file(source)
        if len(content) <= _MOST_BYTES:
            return content.decode().strip()
        reason = f"is larger than {_MOST_BYTES:,} bytes; a selector may have at most {LONGEST_SELECTOR:,}"
    except (OSError, ValueError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "is not UTF-8"
    reader.problems.append(Problem(source, reason))
    return ""


def exit_code(analyses: Sequence[Analysis]) -> int:
    """0 if every request or class has a device and no selector fails; 2 if one is refused; else 1.

    With an edit, the edited selectors count.
    """
    counted = [each if each.comparison is None else each.comparison.edited for each in analyses]
    if any(not each.compiles or not all(one.is_affordable for one in each.selectors) for each in counted):
        return 2
    return 0 if all(each.matched and not each.failed for each in counted) else 1


def as_json(analyses: Sequence[Analysis]) -> str:
    """A list with one mapping for each request or class."""
    return output_text([*map(analysis_json, analyses)], AnalysesJSON)


def text(analyses: Sequence[Analysis], width: int | None = None) -> str:
    """All analyses; `width` is that of the terminal if None."""
    return render_text((section for each in analyses for section in _sections(each)), width)


def _sections(analysis: Analysis) -> Iterator[Section]:
    yield from _selectors(analysis)
    if (comparison := analysis.comparison) is None:
        return
    yield from _selectors(comparison.edited, "With the edit: ")
    gained = format_count(comparison.gained, "device")
    change = f"The edit gains {gained} and loses {comparison.lost:,}; a selector fails on {comparison.failing:,} more."
    rows = [(str(each.change), each.row) for each in comparison.changes]
    yield Section([Lines([change]), _device_table("CHANGE", rows, 0)])


def _selectors(analysis: Analysis, moment: str = "") -> Iterator[Section]:
    tone = Tone.BAD if not analysis.is_valid else Tone.GOOD if analysis.matched else Tone.WARN
    costs = (f"{each.owner}: {each.cost_sentence}" if each.owner else each.cost_sentence for each in analysis.selectors)
    problems = Bullets([*map(str, analysis.problems)])
    yield Section(
        [*map(Paragraph, costs), problems, *notes(analysis.notes)], f"{moment}{analysis.label}", analysis.summary, tone
    )
    if not analysis.rows:
        return
    clauses = [(clause, bool(selector.owner)) for selector in analysis.selectors for clause in selector.clauses]
    counts = [
        [
            *(str(number), f"{each.true:,}", f"{each.false:,}", f"{each.failed:,}", f"{each.excluded:,}"),
            *("" if is_of_class else f"{each.alone:,}", each.text),
        ]
        for number, (each, is_of_class) in enumerate(clauses, 1)
    ]
    titles = numbers("#", "TRUE", "FALSE", "FAILS", "EXCLUDES", "ALONE")
    yield Section([Table([*titles, Column("CONDITION", wraps=True, most_lines=3)], counts)])
    legend = ["TRUTH has a sign for each condition: + true, - false, ! fails, . skipped."] if clauses else []
    rows = [
        row
        for row in analysis.rows
        if row.excluded_by is None or not analysis.selectors[row.excluded_by.selector].owner
    ]
    signs = [" ".join("".join(_SIGNS[truth] for truth in each) for each in row.truths) for row in rows or analysis.rows]
    table = _device_table("TRUTH", [*zip(signs, rows or analysis.rows, strict=True)], analysis.rows_left_out)
    others = sum(row.count for row in analysis.rows) - sum(row.count for row in rows)
    excluded = []
    if rows and others:
        owner = next(selector.owner for selector in analysis.selectors if selector.owner)
        excluded = [f"{owner} excludes {format_count(others, 'more device')}; -o json and -o html show them."]
    yield Section([Lines(legend), table, Lines(excluded)])


def _device_table(title: str, rows: Sequence[tuple[str, DeviceRow]], left_out: int) -> Table:
    cells = [
        [first, str(row.verdict), f"{row.count:,}", [row.kind, row.places], row.error or row.why] for first, row in rows
    ]
    first_column, kind = Column(title, wraps=True, share=4), Column("KIND", wraps=True, share=3)
    columns = [first_column, Column("VERDICT"), *numbers("DEVICES"), kind, Column("WHY", wraps=True)]
    return Table(columns, cells, _MOST_SHOWN, left_out)


_PAGE_FACTS = {
    "badges": {
        DeviceVerdict.MATCHES: "good",
        DeviceVerdict.FAILS: "bad",
        DeviceVerdict.EXCLUDED: "warn",
        DeviceVerdict.NOT_EVALUATED: "warn",
    },
    "signs": {
        Truth.TRUE: ("yes", "✓", "true"),
        Truth.FALSE: ("no", "✕", "false"),
        Truth.FAILS: ("unknown", "!", "fails"),
        Truth.SKIPPED: ("quiet", "·", "skipped"),
    },
    "change_badges": {"gained": "good", "lost": "warn", "fails now": "bad"},
}


def render_analyses(analyses: Sequence[Analysis]) -> str:
    """A page of analyses that needs nothing but itself."""
    from webhook.pages.rendering import render_page

    title = analyses[0].label if len(analyses) == 1 else f"{len(analyses):,} requests and classes"
    return render_page("selector_analyses", title=f"Selectors: {title}", analyses=analyses, **_PAGE_FACTS)
