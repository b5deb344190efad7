"""Archives whose bytes depend on their content only: the same input gives the same checksum."""

from __future__ import annotations

import gzip
import hashlib
import io
import tarfile
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


TIME = datetime(2020, 2, 2, tzinfo=UTC)
"""The time of all files, as in the wheel."""
_EXECUTABLE = 0o111


def write_tarball(target: Path, folder: Path, prefix: str = "") -> None:
    """Pack the files of a folder, in the order of their names, below `prefix`."""
    with (
        target.open("wb") as raw,
        gzip.GzipFile("", "wb", 6, raw, TIME.timestamp()) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive,
    ):
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            content = file.read_bytes()
            entry = tarfile.TarInfo(f"{prefix}{file.relative_to(folder).as_posix()}")
            entry.size, entry.mtime = len(content), int(TIME.timestamp())
            entry.mode = 0o755 if file.stat().st_mode & _EXECUTABLE else 0o644
            archive.addfile(entry, io.BytesIO(content))


def sha256(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
