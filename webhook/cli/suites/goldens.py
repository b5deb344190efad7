"""Golden files: the admitted object and its templates, as `review -o yaml` prints them."""

from __future__ import annotations

import errno
from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING

from webhook.cli.dump import dump_all
from webhook.cli.file_replacement import replace_file
from webhook.cli.folders import is_special

if TYPE_CHECKING:
    from webhook.cli.admit import Result

__all__ = ["golden_difference", "golden_text", "update_golden"]

_MOST_LINES = 12
"""Lines of a diff that are shown."""


def golden_text(result: Result) -> str:
    """The admitted object and its new templates; empty if the object is refused or deleted."""
    if result.is_refused or result.after is None:
        return ""
    return dump_all([result.after, *(template.manifest() for template in result.templates)])


def golden_difference(file: str, text: str) -> str:
    """How a golden file differs from a text, without a full stop; empty if it does not.

    Raises:
        OSError: The file exists, and cannot be read.
    """
    try:
        golden = _content(Path(file)).decode(errors="replace")
    except FileNotFoundError:
        return f"{file} does not exist; --update writes it"
    if golden == text:
        return ""
    lines = [*unified_diff(golden.splitlines(), text.splitlines(), file, "got", lineterm="", n=1)]
    more = f"\n... and {len(lines) - _MOST_LINES} more lines" if len(lines) > _MOST_LINES else ""
    return "\n".join([f"{file} differs; --update writes it anew", *lines[:_MOST_LINES]]) + more


def update_golden(file: str, text: str) -> bool:
    """Write a golden file as a whole, with its folder; false if it has the text already.

    Raises:
        OSError: It cannot be written.
    """
    path = Path(file)
    if path.exists() and _content(path) == text.encode():
        return False
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(file, text.encode())
    return True


def _content(path: Path) -> bytes:
    if is_special(str(path)):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return path.read_bytes()
