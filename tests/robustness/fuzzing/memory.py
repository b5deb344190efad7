"""Memory of a process, for what must stay flat."""

from __future__ import annotations

from pathlib import Path

__all__ = ["resident_mebibytes"]


def resident_mebibytes(process: int | str = "self") -> float:
    """The resident memory of a process in MiB."""
    status = Path(f"/proc/{process}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) / 1024
