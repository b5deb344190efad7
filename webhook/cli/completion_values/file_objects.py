"""Objects of the files of --cluster."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from policies.kubernetes.view import Unknown
from webhook.cli.manifest_reader import ManifestReader
from webhook.cluster.manifests import ManifestsView

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policies.kubernetes.objects import Object

__all__ = ["file_objects"]

_LARGEST = 1_000_000
"""The most bytes of files that are read; larger ones take longer than a second."""


def file_objects(paths: Sequence[str], kind: str, namespace: str) -> Iterable[Object]:
    """The objects of a kind in files and folders; none if these are too large to read while a user waits."""
    each = [*chain.from_iterable([Path(path), *Path(path).rglob("*")] for path in paths)]
    if sum(path.stat().st_size for path in each if path.is_file()) > _LARGEST:
        return ()
    listed = ManifestsView(ManifestReader().cluster(paths)).list(kind, namespace)
    return () if isinstance(listed, Unknown) else listed
