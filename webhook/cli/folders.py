"""Files of folders: which are read, which are excluded, and which an option names."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Protocol

import click

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = [
    "SUFFIXES",
    "Exclusion",
    "NamedFiles",
    "exclusion_of",
    "files_of",
    "is_covered",
    "is_special",
    "replace_file",
]


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
    from pathspec import GitIgnoreSpec

    patterns = [*_patterns(ignore_file), *exclude]
    try:
        return GitIgnoreSpec.from_lines(patterns)
    except ValueError as error:
        raise click.UsageError(f"--exclude and --ignore-file need patterns as in a .gitignore: {error}") from error


class NamedFiles:
    """The files that options such as `--cluster` name.

    A review of a folder that contains them leaves them out.
    """

    def __init__(self, paths: Iterable[tuple[str, str | None]]) -> None:
        """`paths` are options, each with a file or folder that it names; None if the option is not used."""
        self._options = {_absolute(path): option for option, path in paths if path is not None}

    def option_of(self, file: str, root: str) -> str:
        """The option that names a file below a folder, or a subfolder with it; empty if none does."""
        root, path = os.path.realpath(root), _absolute(file)
        while path != root and path != os.path.dirname(path):
            if option := self._options.get(path, ""):
                return option
            path = os.path.dirname(path)
        return ""


def files_of(root: str, exclusion: Exclusion | None, on_error: Callable[[OSError], None]) -> list[str]:
    """The manifests of a folder and its subfolders, in kubectl's order, without hidden and excluded ones."""
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
    # kubectl sorts files and folders of one folder by name. Source: filepath.Walk of Go.
    return sorted(files, key=lambda file: file.split(os.sep))


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


def is_special(path: str) -> bool:
    """True for pipes and devices: reading them could block, or never end."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _patterns(ignore_file: str | None) -> list[str]:
    if ignore_file is None:
        return []
    try:
        with open(ignore_file, encoding="utf-8") as opened:
            return opened.read().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = (error.strerror or "").lower() if isinstance(error, OSError) else "is not UTF-8"
        raise click.UsageError(f"--ignore-file {ignore_file}: {reason or 'cannot be read'}") from error


def _absolute(path: str) -> str:
    """The absolute path without symbolic links, except that of a file itself."""
    if os.path.isdir(path):
        return os.path.realpath(path)
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


def _is_left_out(relative: str, name: str, exclusion: Exclusion | None) -> bool:
    return name.startswith(".") or (exclusion is not None and exclusion.match_file(relative))


def _is_document(file: str) -> bool:
    """True also for a broken link, to report it."""
    return not is_special(file) and not os.path.isdir(file)


def replace_file(name: str, content: bytes) -> None:
    """Write a file as a whole, also after a crash; its mode stays, and a symbolic link stays one.

    A device or a pipe is written to, and stays one.

    Raises:
        OSError: The file cannot be written; it is as before then.
    """
    if os.path.exists(name) and not os.path.isfile(name):
        with open(name, "wb") as opened:
            opened.write(content)
        return
    target = os.path.realpath(name)
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=f".{os.path.basename(target)}.")
    try:
        with os.fdopen(descriptor, "wb") as opened:
            os.fchmod(opened.fileno(), os.stat(target).st_mode & 0o7777 if os.path.exists(target) else _new_file_mode())
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def _new_file_mode() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
