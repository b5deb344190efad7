"""Limits on time and memory, as ratios to a control that is measured in the same run.

    python -m benchmarks.check                      each theme in its own process
    python -m benchmarks.check crowded_pods         one

A theme is a file in benchmarks/checks with a function `ratios()` that returns a list of `Ratio`. Absolute times depend on
the machine, so tests count work instead and these ratios are checked here. Ends with 1 if a ratio is above its limit.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

__all__ = ["Ratio", "main"]

_THEMES = Path(__file__).with_name("checks")


@dataclass(frozen=True, slots=True)
class Ratio:
    """Something that was measured, beside a control."""

    name: str
    measured: float
    control: float
    most: float
    """The largest ratio of the two that is right."""
    unit: str

    @property
    def is_right(self) -> bool:
        """True if the ratio is within its limit."""
        return self.measured <= self.most * self.control

    def __str__(self) -> str:
        ratio = self.measured / self.control
        mark = "ok  " if self.is_right else "MORE"
        return (
            f"{mark} {self.name}: {ratio:.2f} (at most {self.most:g}); {self.measured:.1f} {self.unit} "
            f"beside {self.control:.1f} {self.unit}"
        )


def main(themes: list[str]) -> int:
    """Print the ratios of a theme, or of all of them; 1 if one is above its limit."""
    if len(themes) == 1:
        ratios: list[Ratio] = import_module(f"benchmarks.checks.{themes[0]}").ratios()
        print(*ratios, sep="\n", flush=True)
        return int(not all(ratio.is_right for ratio in ratios))
    code = 0
    for theme in themes or sorted(file.stem for file in _THEMES.glob("*.py")):
        print(f"# {theme}", flush=True)
        code |= subprocess.run([sys.executable, "-m", "benchmarks.check", theme], check=False).returncode
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
