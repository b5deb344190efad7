"""Replacement of files as a whole, so that a crash leaves the former text or the new one."""

from __future__ import annotations

import os
import tempfile

__all__ = ["replace_file"]

_NEW_FILE_MODE = 0o644


def replace_file(name: str, content: bytes) -> None:
    """Write a file as a whole, also after a crash; its mode stays, and a symbolic link stays one.

    Raises:
        OSError: The file cannot be written; it is as before then.
    """
    target = os.path.realpath(name)
    descriptor, temporary = tempfile.mkstemp(dir=os.path.dirname(target), prefix=f".{os.path.basename(target)}.")
    try:
        with os.fdopen(descriptor, "wb") as opened:
            os.fchmod(opened.fileno(), os.stat(target).st_mode & 0o7777 if os.path.exists(target) else _NEW_FILE_MODE)
            opened.write(content)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise
