"""Paths of a node that pods mount."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from policies.kubernetes.paths import FieldPath

__all__ = ["HostMount", "ancestors", "is_within", "normalised", "shown_path"]

_LONGEST = 120
"""Characters of a path in messages."""

_ROOT_OF_PROCESS = re.compile(r"(?:/proc/(?:[0-9]+|self|thread-self)(?:/task/[0-9]+)?/root)+(?=/|$)")


@dataclass(frozen=True, slots=True)
class HostMount:
    """A path of the node in a container."""

    path: FieldPath
    """Of the entry of `volumeMounts`."""
    source: str
    """What of the node is mounted: the volume's path with its sub-path, normalised."""
    read_only: bool

    @property
    def text(self) -> str:
        """The path on the node, as messages may show it."""
        return shown_path(self.source)


def normalised(path: str) -> str:
    """The path that another spelling means: `/dev//x/../nvidia0`, `/var/run/cdi/`, `/proc/1/root/dev`.

    `/var/run` is a link to `/run` on every distribution that runs systemd, `/proc/1/root` to the node's root; a path
    without a leading slash starts at the root, where container runtimes run.
    """
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            del steps[-1:]
        elif step not in ("", "."):
            steps.append(step)
    clean = "/" + "/".join(steps)
    if link := _ROOT_OF_PROCESS.match(clean):
        clean = clean[link.end() :] or "/"
    return clean.removeprefix("/var") if is_within(clean, "/var/run") else clean


def shown_path(path: str) -> str:
    """A path as messages may show it: on one line, cut where it is long."""
    text = printable(path)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def is_within(path: str, folder: str) -> bool:
    """Whether a normalised path is a folder or anything below it."""
    return path == folder or path.startswith(f"{folder}/")


def ancestors(path: str) -> tuple[str, ...]:
    """The folders that a normalised path lies in, `/` first, without itself."""
    steps = path.split("/")
    return ("/", *("/".join(steps[:count]) for count in range(2, len(steps))))
