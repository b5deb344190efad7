"""Kustomizations: the files that they name as patches, which are not objects before kustomize has applied them."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup
from policies.kubernetes.yaml import YAMLError, load_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["patch_files"]

_NAMES = ("kustomization.yaml", "kustomization.yml")
_LISTS = ("patches", "patchesStrategicMerge", "patchesJson6902")
"""Fields of a Kustomization or Component that list patches: by name, or with the name at `path`."""


def patch_files(files: Iterable[str]) -> frozenset[str]:
    """The absolute paths of the files that Kustomizations among the given files name as patches.

    A Kustomization that cannot be read is skipped; the review of the folder reports it.
    """
    return frozenset(
        os.path.abspath(os.path.join(os.path.dirname(file), patch))
        for file in files
        if os.path.basename(file) in _NAMES
        for patch in _patches(_kustomization(file))
    )


def _patches(kustomization: Any) -> Iterator[str]:
    for field in _LISTS:
        listed = lookup(kustomization, (field,))
        for item in listed if isinstance(listed, list) else ():
            path = lookup(item, ("path",)) if isinstance(item, dict) else item
            if isinstance(path, str) and "\n" not in path:
                yield path


def _kustomization(file: str) -> Any:
    try:
        with open(file, encoding="utf-8") as opened:
            return load_document(opened.read()).value
    except (OSError, UnicodeDecodeError, YAMLError):
        return None
