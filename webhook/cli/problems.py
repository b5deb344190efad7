"""Problems of input, with their places."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.kubernetes.yaml import Position

__all__ = ["Problem", "UnreadableInputError", "show_problems"]


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a file."""

    file: str
    message: str
    position: Position | None = None

    def __str__(self) -> str:
        where = f":{self.position.line}:{self.position.column}" if self.position else ""
        return printable(f"{self.file}{where}: {self.message}")


class UnreadableInputError(click.ClickException):
    """The input has problems; all of them are shown, and `outcome` says what was not done."""

    exit_code = 2

    def __init__(self, problems: Sequence[Problem], outcome: str = "nothing was done") -> None:
        self.problems = problems
        self.outcome = outcome
        super().__init__("\n".join(map(str, problems)))

    def show(self, file: Any = None) -> None:
        """Print the problems."""
        show_problems(self.problems, self.outcome, file)


def show_problems(problems: Sequence[Problem], outcome: str, file: Any = None) -> None:
    """Print problems, one per line, for people and for editors that jump to `file:line:column`."""
    for problem in problems:
        click.echo(str(problem), file=file, err=True)
    click.echo(f"{len(problems)} problem{'s' * (len(problems) != 1)}; {outcome}", file=file, err=True)
