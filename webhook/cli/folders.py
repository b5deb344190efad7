"""Files of a folder: which of them are read."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import click

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SUFFIXES", "Exclusion", "Folders", "exclusion_of", "files_of", "is_chart_template"]

SUFFIXES = (".yaml", ".yml", ".json")


@dataclass(frozen=True, slots=True)
class Folders:
    """How folders under review are read."""

    exclude: tuple[str, ...] = ()
    """Patterns of files and folders that are not read, each as a line of a .gitignore."""
    ignore_file: str | None = None
    """A file of such patterns."""
    strict: bool = False
    """Whether a file that is not a manifest is a problem, rather than skipped."""


class Exclusion(Protocol):
    """Decides which paths below a folder are excluded."""

    def match_file(self, file: str) -> bool:
        """Whether a path relative to the folder is excluded; that of a folder ends with a slash."""


def exclusion_of(folders: Folders) -> Exclusion | None:
    """What patterns exclude; None if there are none. Those of the command line have the last word.

    Raises:
        click.UsageError: the file of patterns cannot be read, or a pattern is invalid.
    """
    if not folders.exclude and folders.ignore_file is None:
        return None
    # Here, because it takes longer to import than a folder of manifests takes to review.
    from pathspec import GitIgnoreSpec  # noqa: PLC0415

    try:
        return GitIgnoreSpec.from_lines([*_lines(folders.ignore_file), *folders.exclude])
    except ValueError as error:
        raise click.UsageError(
            f"--exclude and --ignore-file take patterns as a .gitignore has them: {error}"
        ) from error


def files_of(root: str, exclusion: Exclusion | None, on_error: Callable[[OSError], None]) -> list[str]:
    """The manifests of a folder and the folders in it, in the order of their names, without hidden and excluded ones."""
    files = []
    for folder, folders, names in os.walk(root, onerror=on_error):
        below = "" if folder == root else os.path.relpath(folder, root) + "/"
        folders[:] = sorted(name for name in folders if not _is_left_out(f"{below}{name}/", name, exclusion))
        files += [
            os.path.join(folder, name).removeprefix("./")
            for name in sorted(names)
            if name.endswith(SUFFIXES)
            and not _is_left_out(below + name, name, exclusion)
            and _is_document(os.path.join(folder, name))
        ]
    return files


def is_chart_template(file: str) -> bool:
    """Whether a file belongs to the templates of a Helm chart, which are not manifests before they are rendered."""
    folder = os.path.dirname(os.path.abspath(file))
    while (parent := os.path.dirname(folder)) != folder:
        if os.path.basename(folder) == "templates" and os.path.exists(os.path.join(parent, "Chart.yaml")):
            return True
        folder = parent
    return False


def _lines(ignore_file: str | None) -> list[str]:
    if ignore_file is None:
        return []
    try:
        with open(ignore_file, encoding="utf-8") as opened:
            return opened.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "is not UTF-8"
        raise click.UsageError(f"--ignore-file {ignore_file}: {reason or 'cannot be read'}") from error


def _is_left_out(relative: str, name: str, exclusion: Exclusion | None) -> bool:
    return name.startswith(".") or (exclusion is not None and exclusion.match_file(relative))


def _is_document(file: str) -> bool:
    """Whether to read a file of a folder: a pipe or a device could make a reader wait for ever."""
    return os.path.isfile(file) or not os.path.exists(
        file
    )  # a broken link is read, so that it is reported as a problem
