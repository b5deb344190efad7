"""Renders docs/performance.md and its charts; the same results always give the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.charts import number, ratio_chart, value_chart
from benchmarks.figures import Verdict

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from benchmarks.figures import Figure, ThemeResults
    from benchmarks.results import Results, ScaleResults


DOCS = Path(__file__).parents[1] / "docs"
PAGE = "performance.md"
_IMAGES = "images"
_PREFIX = "performance-"

_INTRODUCTION = """# Performance

What gpu-admission costs: how long pods wait, how many pods a second it admits, and what a replica needs in clusters of several
sizes. [Each figure beside a control](#each-figure-beside-a-control) follows, for changes of the code.
"""
_IN_SHORT = """## In short

Client, webhook and API server shared the {cores} cores of [one machine](#each-figure-beside-a-control): compare with your own.
"""
_CREATION = """**How much longer does it take to create a pod?** The median that our webhooks add, through the API server:
"""
_LOAD = """**How many pods a second does one replica answer, and how fast?** Clients that send the next pod as soon as the last one is answered:
"""
_QUOTAS = """**How many pods a second does a quota admit?** 32 clients create pods through the API server and three replicas:
"""
_SIZES = """**What does a replica need?** One replica on {date}, with {pods} pods for each node, 8 GPUs a node; CPU seconds are of one core:
"""
_SIZES_AFTER = """Every replica reads the whole cluster. *Meanwhile* is while pods come and go, and 40 reviews a second are answered. Other programs used
the machine too, which makes CPU seconds longer. `make scale` measures 5,000 nodes again, and fails if a limit is missed.
"""
_RATIOS = """## Each figure beside a control

Each figure is a **ratio to a control of the same run**: milliseconds depend on the machine, ratios hardly
do. A smaller ratio is better. *Measured* and *beside* are medians of the rounds; *ratio* is the median of the ratios of the
rounds, so it may differ from the quotient of both. The *aim* is what we want, the *limit* is what must hold.

`make bench` writes this page; `make bench-check` measures again, names missed aims, and fails if a figure is over its limit.
"""
_REMARK = "> Client, webhook and API server share the cores of this machine. Compare ratios, not milliseconds.\n"
_ELSEWHERE = """### Measured elsewhere

- Commands that read a kubeconfig import kubernetes-asyncio for it, once in each process: 170 ms of CPU time and 37 MiB. A replica
  in a pod reads the files of its ServiceAccount itself, and completion in shells asks kubectl; neither imports it.
- Memory over a million varied reviews: `make fuzz` fails if it grows by more than 15 % after the first 30 % of them.
- A cluster of 5,000 nodes and 100,000 pods: `make scale`, see [benchmarks](../benchmarks/README.md#a-large-cluster).
- Quotas while replicas are killed and API servers restart: `make storm`.
"""


def write_page(results: Results, scale: ScaleResults, folder: Path = DOCS) -> None:
    """Write the page and its charts, and delete charts of themes that no longer exist."""
    files = rendered_files(results, scale)
    for old in (folder / _IMAGES).glob(f"{_PREFIX}*.svg"):
        if f"{_IMAGES}/{old.name}" not in files:
            old.unlink()
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def rendered_files(results: Results, scale: ScaleResults) -> dict[str, str]:
    """The page and its charts, by path in the folder of the page."""
    files = {}
    measured = [theme for theme in results.themes if theme.figures]
    if measured:
        worst = [theme.worst.model_copy(update={"name": theme.title, "group": ""}) for theme in measured]
        files[_image("overview")] = ratio_chart("The figure of each theme that is nearest to its limit", worst)
    for theme in measured:
        files[_image(theme.name)] = ratio_chart(theme.title, theme.figures)
        for column in theme.charts:
            files[_image(theme.name, column)] = value_chart(f"{theme.title}: {column}", theme.figures, column)
    return {PAGE: "\n".join(_page(results, scale)), **files}


def _page(results: Results, scale: ScaleResults) -> Iterator[str]:
    yield _INTRODUCTION
    yield _IN_SHORT.format(cores=results.machine.cores)
    yield from _creation(_figures(results, "end_to_end"))
    yield from _load(_figures(results, "clients"))
    yield from _quotas(_figures(results, "quotas"))
    yield from _sizes(scale)
    yield _RATIOS
    yield from _run(results)
    yield from _overview(results.themes)
    for theme in results.themes:
        yield from _theme(theme)
    yield _ELSEWHERE.rstrip("\n")
    yield ""


def _figures(results: Results, theme: str) -> Sequence[Figure]:
    return next((each.figures for each in results.themes if each.name == theme), ())


def _short_number(value: float) -> str:
    """A number for readers: one decimal below ten, else none."""
    return f"{value:,.1f}" if value < 10 else f"{value:,.0f}"


def _creation(figures: Sequence[Figure]) -> Iterator[str]:
    if not figures:
        return
    yield _CREATION
    yield "| pod | without webhooks | added |"
    yield "|---|---|---|"
    for figure in figures:
        without, _ = figure.more["without webhooks in ms"]
        yield f"| {figure.name} | {_short_number(without)} ms | {_short_number(figure.value)} ms |"
    yield ""


def _load(figures: Sequence[Figure]) -> Iterator[str]:
    if not figures:
        return
    yield _LOAD
    yield "| pod, clients at the same time | pods/s | p50 | p99 | memory |"
    yield "|---|---|---|---|---|"
    for figure in figures:
        cells = [
            f"{_short_number(figure.more[column][0])}{unit}" if column in figure.more else ""
            for column, unit in (
                ("requests/s", ""),
                ("p50 in ms", " ms"),
                ("p99 in ms", " ms"),
                ("memory in MiB", " MiB"),
            )
        ]
        yield f"| {figure.label} | {' | '.join(cells)} |"
    yield ""


def _quotas(figures: Sequence[Figure]) -> Iterator[str]:
    """A row for each control, and one for each GPUQuota, of which the first figure counts."""
    rows = {}
    for figure in figures:
        if "pods/s" in figure.more:
            for place, name in enumerate((figure.name, figure.beside)):
                columns = (figure.more[column][place] for column in ("pods/s", "p50 in ms", "p99 in ms"))
                rows[figure.group, name] = [_short_number(each) for each in columns if each is not None]
    if not rows:
        return
    yield _QUOTAS
    yield "| quota | pods/s | p50 | p99 |"
    yield "|---|---|---|---|"
    for (group, name), (rate, p50, p99) in sorted(rows.items()):
        yield f"| {name}, {group} | {rate} | {p50} ms | {p99} ms |"
    yield ""


_SIZE_ROWS = (
    ("GPUs", "gpus", "", 0),
    ("pods", "pods", "", 0),
    ("memory when ready, at most", "ready_mib", " MiB", 0),
    ("memory after explanations and an audit, at most", "most_mib", " MiB", 0),
    ("CPU until ready", "ready_cpu_s", " s", 1),
    ("pods with GPUs that come or go", "changes_per_second", " a second", 0),
    ("CPU meanwhile", "steady_percent", " % of a core", 0),
    ("CPU of converting a pod meanwhile, p50", "converted_p50_ms", " ms", 1),
    ("CPU of converting a pod meanwhile, p99", "converted_p99_ms", " ms", 1),
    ("CPU of reviewing a claim meanwhile, p50", "claim_p50_ms", " ms", 1),
    ("CPU of reviewing a claim meanwhile, p99", "claim_p99_ms", " ms", 1),
    ("CPU of explaining why a pod waits", "explain_cpu_s", " s", 1),
    ("CPU of an audit, without reading the pods", "audit_cpu_s", " s", 1),
)
"""The rows of the table of sizes: a text, a field of ClusterSize, its unit, and the decimals."""


def _sizes(scale: ScaleResults) -> Iterator[str]:
    sizes = scale.sizes
    yield _SIZES.format(date=scale.date, pods=sizes[0].pods // sizes[0].nodes)
    yield f"| | {' | '.join(f'{size.nodes:,} nodes' for size in sizes)} |"
    yield "|---|" + "---|" * len(sizes)
    for text, field, unit, decimals in _SIZE_ROWS:
        cells = (_size_cell(getattr(size, field), unit, decimals) for size in sizes)
        yield f"| {text} | {' | '.join(cells)} |"
    yield ""
    yield _SIZES_AFTER


def _size_cell(value: float, unit: str, decimals: int) -> str:
    if unit == " s" and value < 1:
        return f"{value * 1000:.0f} ms"
    return f"{value:,.{decimals}f}{unit}"


def _run(results: Results) -> Iterator[str]:
    machine = results.machine
    yield "| run | |"
    yield "|---|---|"
    yield f"| date, commit | {results.date}, {results.commit} |"
    yield f"| machine | {machine.processor}, {machine.cores} cores, {machine.memory_gib} GiB, {machine.system} |"
    yield f"| Python | {results.python} |"
    yield f"| API server of *end to end* and *quotas* | {results.kubernetes} |"
    yield f"| took | {results.seconds / 60:.0f} minutes |"
    yield ""
    yield _REMARK


def _overview(themes: Sequence[ThemeResults]) -> Iterator[str]:
    yield "### Overview"
    yield ""
    yield "The chart has, for each theme, the figure that is nearest to its limit; the last column of the table names it."
    yield ""
    yield from _chart("overview", "For each theme, the figure that is nearest to its limit")
    yield "| theme | figures | within the aim | aim missed | over the limit | nearest to its limit |"
    yield "|---|---|---|---|---|---|"
    for theme in themes:
        verdicts = [figure.verdict for figure in theme.figures]
        counts = " | ".join(str(verdicts.count(verdict)) for verdict in Verdict)
        nearest = theme.worst.label if theme.figures else "not measured"
        yield f"| [{theme.title}](#{_anchor(theme.title)}) | {len(verdicts)} | {counts} | {nearest} |"
    yield ""


def _theme(theme: ThemeResults) -> Iterator[str]:
    yield f"### {theme.title}"
    yield ""
    yield theme.text
    yield ""
    if not theme.figures:
        yield "Not measured in this run."
        yield ""
        return
    yield from _chart(theme.name, f"{theme.title}: ratios to the control")
    yield from _table(theme.figures)
    for column in theme.charts:
        better = "more" if column.endswith("/s") else "less"
        yield f"{column[0].upper()}{column[1:]} ({better} is better):"
        yield ""
        yield from _chart(theme.name, f"{theme.title}: {column}", column)


def _table(figures: Sequence[Figure]) -> Iterator[str]:
    columns = list(dict.fromkeys(column for figure in figures for column in figure.more))
    header = ["figure", "measured", "beside", "ratio", "aim", "limit", *columns]
    yield f"| {' | '.join(header)} |"
    yield "|---" * len(header) + "|"
    for figure in figures:
        cells = [
            figure.label,
            f"{number(figure.value)} {figure.unit}",
            f"{figure.beside}, {number(figure.control)} {figure.unit}",
            f"**{number(figure.ratio)}**{'' if figure.verdict is Verdict.GOOD else f' ({figure.verdict})'}",
            number(figure.aim),
            number(figure.limit),
            *(_cell(figure, column) for column in columns),
        ]
        yield f"| {' | '.join(cells)} |"
    if any(control is not None for figure in figures for _, control in figure.more.values()):
        yield ""
        yield "Numbers in parentheses are those of the control."
    yield ""


def _cell(figure: Figure, column: str) -> str:
    if column not in figure.more:
        return ""
    value, control = figure.more[column]
    return number(value) if control is None else f"{number(value)} ({number(control)})"


def _chart(name: str, alternative: str, column: str = "") -> Iterator[str]:
    yield f"![{alternative}]({_image(name, column)})"
    yield ""


def _image(name: str, column: str = "") -> str:
    words = [name, *column.replace("/s", " per second").split()]
    return f"{_IMAGES}/{_PREFIX}{'-'.join(map(_plain, words))}.svg"


def _anchor(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return _plain(title.replace(" ", "-"))


def _plain(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum() or letter in "-_")
