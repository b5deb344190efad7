"""Compare two checkouts: `python -m testbed.differential --before CHECKOUT --after CHECKOUT`."""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from pathlib import Path
from random import Random

from testbed.differential.command_runs import CommandRuns
from testbed.differential.differences import Report, read_expected
from testbed.differential.material import collect
from testbed.differential.seeded_objects import SeededObjects
from testbed.differential.service_rounds import ServiceRounds

_EXPECTED = Path(__file__).with_name("expected_differences.yaml")
_SHARES = {"cli": 0.25, "http": 0.65, "explain": 0.1}
"""The parts of all cases."""


def main() -> int:
    """Ask both checkouts, and return the exit code: 1 if their answers differ."""
    parser = argparse.ArgumentParser(prog="python -m testbed.differential", description=__doc__)
    parser.add_argument(
        "--before", type=Path, required=True, help="a checkout with its own .venv; questions are made from its files"
    )
    parser.add_argument("--after", type=Path, required=True, help="a checkout with its own .venv")
    parser.add_argument("--seed", type=int, default=1, help="the same seed asks the same questions")
    parser.add_argument("--cases", type=int, default=5000, help="about how many questions")
    parser.add_argument("--only", choices=sorted(_SHARES), help="commands, reviews or explanations over HTTP only")
    parser.add_argument(
        "--out", type=Path, default=Path("build/differential"), help="an own folder; it is emptied first"
    )
    parser.add_argument("--expected", type=Path, default=_EXPECTED, help="differences that are wanted, with reasons")
    options = parser.parse_args()
    start = time.monotonic()
    checkouts = (options.before.resolve(), options.after.resolve())
    folder = options.out.resolve()
    if folder.exists():
        if not (folder / "material").exists():
            parser.error(f"{folder} is not the folder of a former comparison, so it is not emptied")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    report = Report(folder / "differences", checkouts, read_expected(options.expected))
    material = collect(checkouts[0], folder / "material")
    chosen = {options.only: 1.0} if options.only else _SHARES
    cases = {name: round(options.cases * chosen.get(name, 0)) for name in _SHARES}

    def parts(name: str) -> tuple[Random, SeededObjects]:
        """Chance of its own for each part, so that `--only` asks what a whole run asks first."""
        random = Random(f"{options.seed} {name}")
        return random, SeededObjects(random, material.objects, material.rules)

    if cases["cli"]:
        CommandRuns(checkouts, folder / "commands", report, *parts("cli"), material).run(cases["cli"])
    if cases["http"] or cases["explain"]:
        rounds = ServiceRounds(checkouts, folder / "rounds", report, parts, material)
        rounds.run(cases["http"], cases["explain"])
    print(  # noqa: T201 - a command that prints
        f"seed {options.seed}, {time.monotonic() - start:.0f} seconds\n{report.summary()}"
    )
    return 1 if report.different else 0


if __name__ == "__main__":
    sys.exit(main())
