"""Start of offline commands, beside importing every dependency of the product."""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from typing import TYPE_CHECKING

from benchmarks.figures import Figure, Theme, figure_of_rounds
from benchmarks.timing import ROOT, milliseconds_of_process

if TYPE_CHECKING:
    from benchmarks.figures import Pair

THEME = Theme(
    title="Start of commands",
    text="""CPU time of a whole command in a process of its own, beside importing all dependencies of the product. Commands import
what they need when they need it.""",
)
ROUNDS = 7
COMMANDS = {
    "--help": (["--help"], 0.15, 0.3),
    "review --help": (["review", "--help"], 0.15, 0.3),
    "review one pod": (["review", "examples/single-gpu"], 0.5, 0.8),
    "review with a cluster": (["review", "--cluster", "examples/cluster", "examples/single-gpu"], 0.5, 1.0),
    "rules": (["rules"], 0.5, 2.0),
}
"""The arguments of each command, its aim and its limit; `rules` imports every rule and reads their examples."""


def measure() -> list[Figure]:
    """One figure for each command, all of them in turns."""
    everything = [sys.executable, "-c", f"import {', '.join(dependencies())}"]
    rounds: dict[str, list[Pair]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        control = milliseconds_of_process(everything)
        for name, (arguments, *_) in COMMANDS.items():
            rounds[name].append((milliseconds_of_process([sys.executable, "-m", "webhook", *arguments]), control))
    return [
        figure_of_rounds(name, rounds[name], unit="ms", beside="importing everything", aim=aim, limit=limit)
        for name, (_, aim, limit) in COMMANDS.items()
    ]


def dependencies() -> list[str]:
    """The packages of the distributions in pyproject.toml."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    matches = (re.match(r"[a-z0-9-]+", each) for each in project["dependencies"])
    wanted = {match.group().replace("-", "_") for match in matches if match}
    return sorted(
        package
        for package, distributions in importlib.metadata.packages_distributions().items()
        if wanted & {name.lower().replace("-", "_") for name in distributions} and not package.startswith("_")
    )
