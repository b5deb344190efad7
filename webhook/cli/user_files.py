"""Files of users: reading never blocks and is bounded, and replacing a file loses nothing of it."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Self

MOST_BYTES = 256 * 1024 * 1024
"""The largest input that is read, such as all pods of a large cluster in JSON. It takes up to 3 GiB of memory."""
_SHELL_PIPES = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Names of open pipes, such as `<(helm template ./chart)` in a shell. They end with the command that writes."""
_WORKING_FOLDER, _EXCHANGE = -100, 2
"""The constants AT_FDCWD and RENAME_EXCHANGE of renameat2(2)."""
_CHANGED = "was changed after it was read; run the command again"


class UserFileError(OSError):
    """A file is not read or not replaced; `strerror` says why."""


def reason_of(error: OSError) -> str:
    """The reason of an error, to stand after the name of the file."""
    reason = error.strerror or str(error)
    return reason if isinstance(error, UserFileError) else reason.lower()


def is_special(name: str) -> bool:
    """True for pipes, devices and sockets: reading them could block, or never end."""
    return os.path.exists(name) and not os.path.isfile(name) and not os.path.isdir(name)


def read_file(name: str) -> bytes:
    """The content of a file, or of a pipe of the shell.

    Raises:
        OSError: It cannot be read, is another pipe, a device or a socket, or is too large.
    """
    status = os.stat(name)
    if is_special(name):
        is_pipe = stat.S_ISFIFO(status.st_mode)
        is_open_pipe = is_pipe and os.path.abspath(name).startswith(_SHELL_PIPES)
        if not is_open_pipe and os.path.realpath(name) != os.devnull:
            kind = "pipe" if is_pipe else "socket" if stat.S_ISSOCK(status.st_mode) else "device"
            raise UserFileError(errno.EINVAL, f"is a {kind}; name a regular file", name)
    elif stat.S_ISREG(status.st_mode) and status.st_size > MOST_BYTES:
        raise _too_large(name)
    with open(name, "rb") as opened:
        return read_stream(opened, name)


def read_stream(opened: IO[bytes], name: str) -> bytes:
    """The rest of an open file, such as standard input.

    Raises:
        OSError: It cannot be read, or is too large.
    """
    content = opened.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise _too_large(name)
    return content


def _too_large(name: str) -> UserFileError:
    return UserFileError(errno.EFBIG, f"is larger than {MOST_BYTES >> 20} MiB; divide it", name)


@dataclass(frozen=True, slots=True)
class FileVersion:
    """A file as it was read."""

    place: tuple[int, int]
    """Device and inode."""
    content: bytes

    @classmethod
    def of(cls, name: str, content: bytes | None = None) -> Self:
        """The version of a file now, with the content that was read from it just before.

        Raises:
            OSError: The file cannot be read.
        """
        status = os.stat(name)
        return cls((status.st_dev, status.st_ino), read_file(name) if content is None else content)


def replace_file(name: str, content: bytes, before: FileVersion | None = None) -> None:
    """Write a file as a whole, also after a crash; its owner and mode stay, and a symbolic link stays one.

    A device or a pipe is written to, and stays one.

    Args:
        name: The file. One with several hard links is refused, because the others would keep the former content.
        content: Its new content.
        before: The version that the new content was made from. If the file is another now, it stays as it is.

    Raises:
        OSError: The file is not written; it is as before then.
    """
    if os.path.exists(name) and not os.path.isfile(name):
        with open(name, "wb") as opened:
            opened.write(content)
        return
    target = os.path.realpath(name)
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=f".{os.path.basename(target)}.")
    try:
        with os.fdopen(descriptor, "wb") as opened:
            if os.path.exists(target):
                _copy_attributes(target, temporary, name)
            else:
                os.fchmod(opened.fileno(), _new_file_mode())
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        if before is None:
            os.replace(temporary, target)
        else:
            _replace_version(temporary, target, before, name)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def _copy_attributes(target: str, temporary: str, name: str) -> None:
    """Give a new file the owner, mode and extended attributes of the one that it replaces.

    Raises:
        UserFileError: It cannot have them.
    """
    old, new = os.stat(target), os.stat(temporary)
    if old.st_nlink > 1:
        reason = f"has {old.st_nlink} hard links, and the others would keep its former content"
        raise UserFileError(errno.EMLINK, reason, name)
    if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
        try:
            os.chown(temporary, old.st_uid, old.st_gid)
        except PermissionError:
            raise UserFileError(errno.EPERM, "belongs to another user or group, and would be yours", name) from None
    shutil.copystat(target, temporary)
    os.utime(temporary)


def _replace_version(temporary: str, target: str, before: FileVersion, name: str) -> None:
    """Replace a file if it is still the version that was read.

    The two files exchange their names in one step, and what was replaced is compared once more: an editor may write at any
    moment. Where names cannot be exchanged, an edit between the comparison and the replacement is lost.

    Raises:
        UserFileError: It is another version.
    """
    if FileVersion.of(target) != before:
        raise UserFileError(errno.EBUSY, _CHANGED, name)
    written = FileVersion.of(temporary)
    if not _exchange(temporary, target):
        os.replace(temporary, target)
    elif FileVersion.of(temporary) == before:
        os.unlink(temporary)
    elif _exchange(temporary, target) and FileVersion.of(temporary) == written:
        raise UserFileError(errno.EBUSY, _CHANGED, name)
    else:
        os.rename(temporary, f"{temporary}.edited")
        raise UserFileError(errno.EBUSY, f"{_CHANGED}; one of the changes is in {temporary}.edited", name)


def _exchange(one: str, other: str) -> bool:
    """Exchange the names of two files; False if that is not possible here. Source: renameat2(2)."""
    import ctypes

    renameat2 = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if renameat2 is None:
        return False
    arguments = _WORKING_FOLDER, os.fsencode(one), _WORKING_FOLDER, os.fsencode(other), _EXCHANGE
    return bool(renameat2(*arguments) == 0)


def _new_file_mode() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
