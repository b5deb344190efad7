"""Programs of Debian packages for tests, unpacked beside the virtual environment and not installed."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

_CACHE = Path(sys.prefix) / "debian"
_SECONDS = 120


class NoPackageError(Exception):
    """A package cannot be had here; the text says why."""


@cache
def package_folder(name: str) -> Path:
    """The folder with the files of a Debian package, downloaded at the first call.

    Its dependencies are not there: this is for programs that need only what every Debian has. Processes that call it at the
    same time wait for each other.

    Raises:
        NoPackageError: This is no Debian, or its archive cannot be reached.
    """
    return _ensure_unpacked(name, with_dependencies=False)


@cache
def package_folder_with_libraries(name: str) -> Path:
    """The folder with the files of a Debian package and of its dependencies that are missing here.

    Raises:
        NoPackageError: As above.
    """
    return _ensure_unpacked(name, with_dependencies=True)


def _ensure_unpacked(name: str, *, with_dependencies: bool) -> Path:
    folder = _CACHE / name
    _CACHE.mkdir(exist_ok=True)
    with (_CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            _unpack(name, folder, with_dependencies=with_dependencies)
    return folder


def _unpack(name: str, folder: Path, *, with_dependencies: bool) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise NoPackageError(f"package {name} cannot be had: this is no Debian")
    with tempfile.TemporaryDirectory(dir=_CACHE, prefix=f"{name}-") as found:
        names = _missing_packages(name, found) if with_dependencies else [name]
        # apt-get warns that its own user may not write here, and downloads as this one.
        _run(["apt-get", "download", "-q", *names], found)
        unpacked = Path(found) / "unpacked"
        for file in sorted(Path(found).glob("*.deb")):
            _run(["dpkg", "-x", str(file), str(unpacked)], found)
        unpacked.rename(folder)


def _missing_packages(name: str, folder: str) -> list[str]:
    """The packages that an installation would bring; nothing is installed."""
    plan = _run(["apt-get", "install", "--simulate", "--no-install-recommends", name], folder)
    return [line.split()[1] for line in plan.splitlines() if line.startswith("Inst ")]


def _run(command: list[str], folder: str) -> str:
    try:
        return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=_SECONDS).stdout
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        said = (error.stderr or "").strip() if isinstance(error.stderr, str) else ""
        raise NoPackageError(f"{' '.join(command[:2])} failed: {said.splitlines()[-1] if said else error}") from error
