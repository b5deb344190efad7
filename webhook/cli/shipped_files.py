"""Files that are no code and that commands read: the examples, and the manifests of this version."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["shipped_path"]

_INSTALLED = Path(__file__).parents[1] / "shipped"
_CHECKOUT = Path(__file__).parents[2]


def shipped_path(name: str) -> Path:
    """The path of `examples` or `deploy`: in the package if it is installed, else in the checkout.

    It is relative if it is below the current folder, because commands print it.
    """
    root = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
    path, here = root / name, Path.cwd()
    return Path(os.path.relpath(path, here)) if path.is_relative_to(here) else path
