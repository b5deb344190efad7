"""Runs benchmarks, for `make bench` and `make bench-check`.

python -m benchmarks                        measure all themes; write the results file and docs/performance.md
python -m benchmarks check [THEME...]       measure, print, and end with 1 if a figure is over its limit
python -m benchmarks render                 write docs/performance.md again from the newest results file
python -m benchmarks measure THEME FILE     measure one theme in this process, and write its results
"""

from __future__ import annotations

import argparse
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import ThemeResults, Verdict
from benchmarks.page import write_page
from benchmarks.results import (
    Machine,
    Results,
    commit,
    kubernetes,
    newest_file,
    read_results,
    read_scale,
    write_results,
)
from benchmarks.themes import THEMES

if TYPE_CHECKING:
    from collections.abc import Sequence

_ROOT = Path(__file__).parents[1]
_SECONDS = 900
"""After which a theme is ended."""


def main() -> int:
    """Run the command that the arguments name; without one, measure everything and write the page."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("check").add_argument(
        "themes", nargs="*", metavar="THEME", help=f"default: all of {', '.join(THEMES)}"
    )
    commands.add_parser("render")
    one = commands.add_parser("measure")
    one.add_argument("theme", choices=THEMES)
    one.add_argument("file", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "check":
        if unknown := set(arguments.themes) - set(THEMES):
            parser.error(f"unknown theme {', '.join(sorted(unknown))}; themes: {', '.join(THEMES)}")
        return check(arguments.themes or THEMES)
    if arguments.command == "measure":
        arguments.file.write_text(measure(arguments.theme).model_dump_json(), encoding="utf-8")
    elif arguments.command == "render":
        write_page(read_results(newest_file()), read_scale())
    else:
        return write_all()
    return 0


def check(themes: Sequence[str]) -> int:
    """Measure some themes; 1 if a figure is over its limit."""
    measured = [_measure_apart(theme) for theme in themes]
    verdicts = Counter(figure.verdict for theme in measured for figure in theme.figures)
    failed = [theme.name for theme in measured if not theme.figures]
    print(", ".join(f"{verdicts[verdict]} {verdict}" for verdict in Verdict))
    if failed:
        print(f"ended with an error: {', '.join(failed)}")
    return int(bool(verdicts[Verdict.BAD] or failed))


def measure(theme: str) -> ThemeResults:
    """Measure one theme in this process."""
    module = import_module(f"benchmarks.themes.{theme}")
    begin = time.monotonic()
    figures = tuple(module.measure())
    seconds = round(time.monotonic() - begin, 1)
    return ThemeResults(**module.THEME.model_dump(), name=theme, seconds=seconds, figures=figures)


def write_all() -> int:
    """Measure everything and write it; 1 if a theme failed."""
    begin = time.monotonic()
    source = commit()
    themes = tuple(_measure_apart(theme) for theme in THEMES)
    results = Results(
        date=f"{datetime.now(UTC):%Y-%m-%d}",
        commit=source,
        machine=Machine.read(),
        python=platform.python_version(),
        kubernetes=kubernetes(os.environ),
        seconds=round(time.monotonic() - begin),
        themes=themes,
    )
    file = write_results(results)
    write_page(results, read_scale())
    print(f"{file.relative_to(_ROOT)} and docs/performance.md, after {results.seconds / 60:.1f} minutes")
    return int(not all(theme.figures for theme in themes))


def _measure_apart(theme: str) -> ThemeResults:
    """Measure a theme in a process of its own, so that it meets no caches and no memory of another.

    One that fails is measured once more: on a busy machine a control plane may not start in time.
    """
    begin = time.monotonic()
    results = _results_of_process(theme) or _results_of_process(theme)
    if results is None:
        described = import_module(f"benchmarks.themes.{theme}").THEME.model_dump()
        results = ThemeResults(**described, name=theme, seconds=round(time.monotonic() - begin, 1), figures=())
    print(f"# {theme}, {results.seconds:.0f} s", *results.figures, sep="\n", flush=True)
    return results


def _results_of_process(theme: str) -> ThemeResults | None:
    """The results of a new process; None if it failed."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "results.json")
        command = [sys.executable, "-m", "benchmarks", "measure", theme, str(file)]
        with subprocess.Popen(command, cwd=_ROOT, start_new_session=True) as process:
            try:
                code = process.wait(_SECONDS)
            except subprocess.TimeoutExpired:
                # With the servers that it has started, which would disturb the next theme.
                os.killpg(process.pid, signal.SIGKILL)
                code = -signal.SIGKILL
        if code:
            print(f"{theme}: ended with {code}", flush=True)
            return None
        return ThemeResults.model_validate_json(file.read_text(encoding="utf-8"))


if __name__ == "__main__":
    sys.exit(main())
