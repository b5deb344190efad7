"""Diffs: an object before and after admission, as YAML."""

from __future__ import annotations

from difflib import unified_diff
from typing import TYPE_CHECKING

import click

from webhook.cli.dump import dump

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["diff", "styled"]


def diff(before: Object, after: Object, name: str) -> list[str]:
    """The lines of a unified diff of two forms of an object; none where they are equal."""
    old, new = dump(before).splitlines(), dump(after).splitlines()
    return list(unified_diff(old, new, f"{name} before admission", f"{name} as admitted", lineterm=""))


def styled(line: str) -> str:
    """A line of a diff in the colours that people know from git."""
    if line.startswith(("---", "+++")):
        return click.style(line, bold=True)
    colours = {"-": "red", "+": "green", "@": "cyan"}
    return click.style(line, fg=colours[line[0]]) if line[:1] in colours else line
