"""The last lines of `make quick` and `make test`: what was proved, and what was not because something is absent."""

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parent
MOST_REASONS = 6
FEWEST_FOLDERS = 6
"""Folders of tests from which on a run is more than a look at one subject."""


def summary(passed, skipped, markers=""):
    """The lines, at most ten.

    Args:
        passed: The paths of tests that passed, relative to the repository.
        skipped: The reasons of tests that were skipped.
        markers: The expression of `-m`; tests that it excludes did not run.
    """
    ran = {Path(path).parts[1] for path in passed}
    if len(ran) < FEWEST_FOLDERS:
        return []
    others = sorted({path.relative_to(TESTS).parts[0] for path in TESTS.glob("*/**/test_*.py")} - ran)
    lines = [f"Proved: {len(passed):,} tests passed, of {len(ran)} subjects."]
    if others:
        named = ", ".join(others[:8]) + (f" and {len(others) - 8} more" if len(others) > 8 else "")
        lines.append(f"Not run: {len(others)} subjects: {named}.")
    if markers:
        lines.append(f"Not run: tests outside of -m '{markers}'.")
    if not skipped:
        return [*lines, "Nothing was absent that these tests compare with."]
    # "no cluster" is one test instead of hundreds.
    reasons = sorted(Counter(skipped).most_common(), key=lambda reason: not reason[0].startswith("no "))
    lines.append("Not proved, because something is absent or was not wanted:")
    lines += [f"  {count:>5,}  {reason}" for reason, count in reasons[:MOST_REASONS]]
    rest = sum(count for _, count in reasons[MOST_REASONS:])
    if rest:
        lines[-1] += f"; and {rest:,} tests for {len(reasons) - MOST_REASONS} other reasons (-rs lists all)"
    return lines


def pytest_terminal_summary(terminalreporter, config):
    stats = terminalreporter.stats
    passed = [report.nodeid.partition("::")[0] for report in stats.get("passed", ())]
    skipped = [str(report.longrepr[2]).removeprefix("Skipped: ") for report in stats.get("skipped", ())]
    for line in summary(passed, skipped, config.getoption("markexpr")):
        terminalreporter.write_line(line)
