"""Writes lists of objects as JSON, which `--cluster` reads fastest: one object in a line."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

import click
import orjson
import yaml

from policies.kubernetes.objects import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource

__all__ = ["HEAD", "ListFile", "check_target", "replaced_folder"]


class ListFile:
    """The file with all objects of a resource; removed again if it is not finished."""

    def __init__(self, folder: Path, resource: Resource, namespace: str = "") -> None:
        """`namespace` is the only one whose objects are in the file; empty for all."""
        self.name = f"{resource.name}.json"
        self.count = 0
        self._is_discarded = False
        self._path = folder / self.name
        self._file = self._path.open("wb")
        head: Object = {"apiVersion": resource.api_version, "kind": f"{resource.kind}List"}
        if namespace:
            head["metadata"] = {"namespace": namespace}
        self._file.write(orjson.dumps(head).removesuffix(b"}") + b',"items":[')

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        is_kept = kind is None and not self._is_discarded
        if is_kept:
            self._file.write(b"\n]}\n")
        self._file.close()
        if not is_kept:
            self._path.unlink()

    def discard(self) -> None:
        """Remove the file at the end, because not all objects can be read."""
        self._is_discarded = True

    def add(self, objects: list[Object]) -> None:
        """Add objects."""
        for each in objects:
            self._file.write((b",\n" if self.count else b"\n") + orjson.dumps(each))
            self.count += 1


HEAD = "snapshot.yaml"
"""The file that says what the others are."""
_HINTS = {
    errno.EBUSY: "; if it is a mount point, name a folder in it",
    errno.ENOTEMPTY: "; another command wrote into it at the same moment",
}


class UnwritableFolderError(click.ClickException):
    """A snapshot cannot be written."""

    exit_code = 2


@contextmanager
def _file_errors(folder: Path) -> Iterator[None]:
    """Turn errors of files into one sentence about the folder of the snapshot.

    Raises:
        UnwritableFolderError: The snapshot cannot be written.
    """
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower() + _HINTS.get(error.errno or 0, "")
        raise UnwritableFolderError(f"the snapshot cannot be written to {folder}: {reason}") from error


def check_target(folder: Path) -> None:
    """Refuse to replace a folder that has other files than those of a snapshot.

    Raises:
        click.UsageError: The folder cannot be replaced.
        UnwritableFolderError: The folder cannot be read.
    """
    with _file_errors(folder):
        _check_target(folder)


def _check_target(folder: Path) -> None:
    if not folder.exists():
        if not folder.parent.is_dir():
            raise click.UsageError(f"the folder {folder.parent} does not exist")
        return
    if not folder.is_dir():
        raise click.UsageError(f"{folder} is a file, and a snapshot is a folder")
    if folder.resolve() == Path.cwd():
        raise click.UsageError("name a folder below the current one, because the whole folder is replaced")
    _check_files(folder, folder)


def _check_files(folder: Path, name: Path) -> None:
    """Refuse other files in a folder than those of a snapshot; messages call it `name`."""
    if others := _others_in(folder):
        more = f" and {len(others) - 1} more" if len(others) > 1 else ""
        raise click.UsageError(
            f"{name} has files that are not of a snapshot ({others[0]}{more}), and would be replaced; name another folder"
        )


def _others_in(folder: Path) -> list[str]:
    return sorted({each.name for each in folder.iterdir()} - _files_of(folder))


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

    Nothing is left of it after an error or a signal, except SIGKILL. Only the user may read it: it says what runs in the cluster.

    Raises:
        click.UsageError: Other files have come into the folder.
        UnwritableFolderError: Nothing can be written, such as on a full disk.
    """
    target = Path(os.path.realpath(folder))
    with _signals_that_exit(), _file_errors(folder):
        written = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
        try:
            yield written
            _move(written, target, folder)
        except BaseException:
            shutil.rmtree(written, ignore_errors=True)
            raise


@contextmanager
def _signals_that_exit() -> Iterator[None]:
    """Let the end of a job or of a terminal raise SystemExit, so that what was written is removed."""
    # nohup lets SIGHUP be ignored, and it stays so.
    ending = [each for each in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(each) is signal.SIG_DFL]
    for each in ending:
        signal.signal(each, _exit)
    try:
        yield
    finally:
        for each in ending:
            signal.signal(each, signal.SIG_DFL)


def _exit(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)


def _move(written: Path, target: Path, folder: Path) -> None:
    if not target.exists():
        written.rename(target)
        return
    before = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        # An empty folder is replaced in one step.
        target.rename(before)
        # Reading the cluster takes minutes, in which files of others may have come.
        _check_files(before, folder)
        written.rename(target)
    except BaseException:
        _put_back(before, target)
        raise
    shutil.rmtree(before)


def _put_back(before: Path, target: Path) -> None:
    """Undo a move; a snapshot that another command has put there meanwhile is newer, and stays."""
    try:
        before.rename(target)
    except OSError:
        if not _others_in(before):
            shutil.rmtree(before)
