"""The memory of a process, for tests and benchmarks that must stay flat."""

from __future__ import annotations

from pathlib import Path


def resident_mebibytes(process: int | str = "self") -> float:
    """The resident memory of a process in MiB."""
    return _mebibytes(process, "VmRSS:")


def peak_mebibytes(process: int) -> float:
    """The largest resident memory of a process so far in MiB."""
    return _mebibytes(process, "VmHWM:")


def _mebibytes(process: int | str, field: str) -> float:
    status = Path(f"/proc/{process}/status").read_text()
    (line,) = [line for line in status.splitlines() if line.startswith(field)]
    return int(line.split()[1]) / 1024
