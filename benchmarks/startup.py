"""Start of offline commands, beside importing every dependency of pyproject.toml; aim: below half.

Run it with `.venv/bin/python benchmarks/startup.py`. Processor time of the best of several runs.
"""

from __future__ import annotations

import importlib.metadata
import re
import resource
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMANDS = {
    "--help": ["--help"],
    "review --help": ["review", "--help"],
    "review one pod": ["review", "examples/single-gpu"],
    "review with a cluster": ["review", "--cluster", "examples/cluster", "examples/single-gpu"],
    "rules": ["rules"],
}


def dependencies() -> list[str]:
    """The packages that the distributions in pyproject.toml bring."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = (re.match(r"[a-z-]+", each) for each in project["dependencies"])
    wanted = {match.group().replace("-", "_") for match in named if match}
    return sorted(
        package
        for package, distributions in importlib.metadata.packages_distributions().items()
        if wanted & {name.lower().replace("-", "_") for name in distributions} and not package.startswith("_")
    )


def cost(command: list[str]) -> float:
    """Seconds of processor time, the least of seven runs."""
    best = float("inf")
    for _ in range(7):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def main() -> None:
    """Print a line per command."""
    everything = cost([sys.executable, "-c", f"import {', '.join(dependencies())}"])
    print(f"{'importing everything':24}{everything * 1e3:7.0f} ms")
    for name, arguments in COMMANDS.items():
        spent = cost([sys.executable, "-m", "webhook", *arguments])
        print(f"{name:24}{spent * 1e3:7.0f} ms{spent / everything:7.2f}")


if __name__ == "__main__":
    main()
