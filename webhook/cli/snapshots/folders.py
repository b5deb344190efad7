"""The folder of a snapshot: written aside, and moved to its place when it is complete."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["HEAD", "check_target", "replaced_folder"]

HEAD = "snapshot.yaml"
"""The file that says what the others are."""


def check_target(folder: Path) -> None:
    """Refuse to replace a folder that has other files than those of a snapshot.

    Raises:
        click.UsageError: The folder cannot be written or replaced.
    """
    if not folder.exists():
        if not folder.parent.is_dir():
            raise click.UsageError(f"the folder {folder.parent} does not exist")
        return
    if not folder.is_dir():
        raise click.UsageError(f"{folder} is a file, and a snapshot is a folder")
    if folder.resolve() == Path.cwd():
        raise click.UsageError("name a folder below the current one, because the whole folder is replaced")
    others = sorted({each.name for each in folder.iterdir()} - _files_of(folder))
    if others:
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise click.UsageError(
            f"{folder} has files that are not of a snapshot ({others[0]}{more}), and would be replaced; name another folder"
        )


def _files_of(folder: Path) -> set[str]:
    """The files that a snapshot wrote into a folder; empty if it is not that of a snapshot."""
    try:
        head = yaml.safe_load((folder / HEAD).read_text(encoding="utf-8"))
    except (OSError, ValueError, yaml.YAMLError):
        return set()
    files = lookup(head, ("snapshot", "files"))
    return {HEAD, *files} if isinstance(files, dict) else set()


@contextmanager
def replaced_folder(folder: Path) -> Iterator[Path]:
    """An empty folder to write into, which replaces `folder` at the end.

    Nothing is left of it after an error. Only the user may read it: it says what runs in the cluster.
    """
    target = Path(os.path.realpath(folder))
    written = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        yield written
        _move(written, target)
    except BaseException:
        shutil.rmtree(written, ignore_errors=True)
        raise


def _move(written: Path, target: Path) -> None:
    if not target.exists():
        written.rename(target)
        return
    before = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    # An empty folder is replaced in one step.
    target.rename(before)
    try:
        written.rename(target)
    except OSError:
        before.rename(target)
        raise
    shutil.rmtree(before)
