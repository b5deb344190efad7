"""Files of folders: which are read, and which are excluded."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Protocol

import click

from webhook.cli.lazy_modules import lazy_module

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SUFFIXES", "Exclusion", "exclusion_of", "files_of", "is_covered"]

SUFFIXES = (".yaml", ".yml", ".json")


class Exclusion(Protocol):
    """Decides which paths below a folder are excluded."""

    def match_file(self, file: str) -> bool:
        """True if a path relative to the folder is excluded; the path of a folder ends with a slash."""


def exclusion_of(exclude: tuple[str, ...], ignore_file: str | None) -> Exclusion | None:
    """The exclusion by all patterns, or None without patterns.

    Args:
        exclude: Patterns of files and folders to skip, each as a line of a .gitignore. They come last.
        ignore_file: A file with such patterns.

    Raises:
        click.UsageError: The file of patterns cannot be read, or a pattern is invalid.
    """
    if not exclude and ignore_file is None:
        return None
    patterns = [*_patterns(ignore_file), *exclude]
    try:
        exclusion: Exclusion = lazy_module("patterns of a .gitignore").GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise click.UsageError(f"--exclude and --ignore-file need patterns as in a .gitignore: {error}") from error
    return exclusion


def files_of(root: str, exclusion: Exclusion | None, on_error: Callable[[OSError], None]) -> list[str]:
    """The manifests of a folder and its subfolders, sorted, without hidden and excluded ones."""
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


def is_covered(file: str, path: str, exclusion: Exclusion | None) -> bool:
    """True if a file is one that is named, or is below a folder and not left out; it need not exist."""
    file, root = os.path.normpath(file), os.path.normpath(path)
    if file == root:
        return True
    below = os.path.relpath(file, root)
    if below.startswith(os.pardir):
        return False
    *folders, name = below.split(os.sep)
    paths = [("/".join(folders[: depth + 1]) + "/", folder) for depth, folder in enumerate(folders)] + [(below, name)]
    return not any(_is_left_out(relative, part, exclusion) for relative, part in paths)


def _patterns(ignore_file: str | None) -> list[str]:
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
    """False for pipes and devices, which could block; True for a broken link, to report it."""
    return os.path.isfile(file) or not os.path.exists(file)
