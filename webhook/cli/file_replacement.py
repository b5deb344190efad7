"""Replacement of files as a whole, so that a crash leaves the former text or the new one."""

from __future__ import annotations

import os
import tempfile

__all__ = ["replace_file"]


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
