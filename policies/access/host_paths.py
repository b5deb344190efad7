"""Paths of a node that pods mount."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from policies.kubernetes.paths import FieldPath

__all__ = ["HostMount", "ancestors", "is_within", "leads_to_open_file", "normalised_path", "shown_path"]

_LONGEST = 120
"""Characters of a path in messages."""

_PROCESS = "/proc/(?:[0-9]+|self|thread-self)(?:/task/[0-9]+)?"
_ROOT_OF_PROCESS = re.compile(f"{_PROCESS}/(?:root|cwd)")
_OPEN_FILE = re.compile(f"{_PROCESS}/(?:exe|(?:fd|map_files)/[^/]+)")
_OPEN_FILES = re.compile(rf"{_PROCESS}/(?:exe|fd|map_files)(?:/|\Z)")
_MOST_STEPS = 6
"""Steps of the longest path that these match, `/proc/1/task/1/fd/0`."""

_LINKS = {
    ("var", "run"): ("run",),
    ("dev", "fd"): ("proc", "self", "fd"),
    ("dev", "stdin"): ("proc", "self", "fd", "0"),
    ("dev", "stdout"): ("proc", "self", "fd", "1"),
    ("dev", "stderr"): ("proc", "self", "fd", "2"),
}
"""Links that every node has.

Sources: file-hierarchy(7) of systemd (`/var/run`); udev and Linux Documentation/admin-guide/devices.txt, "Recommended
links" (`/dev/fd` and the standard streams).
"""


@dataclass(frozen=True, slots=True)
class HostMount:
    """A path of the node in a container."""

    path: FieldPath
    """Of the entry of `volumeMounts`."""
    source: str
    """The mounted path of the node: the volume's path with its sub-path, normalised."""
    read_only: bool

    @property
    def text(self) -> str:
        """The path on the node, for messages."""
        return shown_path(self.source)


def normalised_path(path: str) -> str:
    """The canonical form of a path such as `/dev//x/../nvidia0`, `/var/run/cdi/` or `/proc/1/root/dev`.

    Steps are resolved in order, as the kernel does: `..` after a link is the parent of its target.
    A path without a leading slash starts at the root, where container runtimes run.

    The root and the working directory of a process count as the root of the node. They are for PID 1, the kubelet and
    container runtimes, which systemd starts in `/`. Where another process works is unknown.

    Source: systemd.exec(5) WorkingDirectory; proc_pid_root(5), proc_pid_cwd(5).
    """
    steps: list[str] = []
    for step in path.split("/"):
        if step == "..":
            # Which folder an open file lies in is as unknown as the file.
            if not _match(_OPEN_FILE, steps):
                del steps[-1:]
        elif step not in ("", "."):
            steps.append(step)
            if _match(_ROOT_OF_PROCESS, steps):
                steps.clear()
            elif len(steps) == 2:
                steps = list(_LINKS.get((steps[0], steps[1]), steps))
    return "/" + "/".join(steps)


def leads_to_open_file(path: str) -> bool:
    """True if a path leads through files that a process has open or mapped, which can be any file."""
    return _OPEN_FILES.match(path) is not None


def _match(pattern: re.Pattern[str], steps: list[str]) -> bool:
    return len(steps) <= _MOST_STEPS and pattern.fullmatch("/" + "/".join(steps)) is not None


def shown_path(path: str) -> str:
    """A path for messages: on one line, shortened if it is long."""
    text = printable(path)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def is_within(path: str, folder: str) -> bool:
    """True if a normalised path is the folder or below it."""
    return path == folder or path.startswith(f"{folder}/")


def ancestors(path: str) -> tuple[str, ...]:
    """The folders above a normalised path, `/` first."""
    steps = path.split("/")
    return ("/", *("/".join(steps[:count]) for count in range(2, len(steps))))
