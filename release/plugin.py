"""The plugin of kubectl for krew: an archive for each platform, with everything but Python, and the manifest."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from release.archives import sha256, write_tarball
from release.project import ROOT, version

if TYPE_CHECKING:
    from collections.abc import Iterable


PYTHONS = ("3.11", "3.12", "3.13", "3.14")
"""The versions of Python that an archive has native packages for."""
_LAUNCHER = Path(__file__).with_name("launcher.py")
_BINARY = "kubectl-gpu"


@dataclass(frozen=True, slots=True)
class Platform:
    """A platform as krew names it."""

    os: str
    arch: str
    triple: str
    """As uv names it in `--python-platform`."""

    @property
    def archive(self) -> str:
        """The name of its archive."""
        return f"{_BINARY}-{self.os}-{self.arch}.tar.gz"


# There is no darwin/amd64: cryptography has no wheel for Macs of Intel any more.
PLATFORMS = (
    Platform("linux", "amd64", "x86_64-manylinux_2_28"),
    Platform("linux", "arm64", "aarch64-manylinux_2_28"),
    Platform("darwin", "arm64", "aarch64-apple-darwin"),
)


def write_archive(dist: Path, platform: Platform, wheel: Path, pythons: Iterable[str] = PYTHONS) -> Path:
    """Write the archive of a platform: launcher, licence, our package, and its dependencies for each Python.

    Raises:
        subprocess.CalledProcessError: A dependency has no wheel for the platform.
    """
    target = dist / platform.archive
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        launcher = root / _BINARY
        launcher.write_text(_LAUNCHER.read_text())
        launcher.chmod(0o755)
        (root / "LICENSE").write_text((ROOT / "LICENSE").read_text())
        common = root / "lib" / "common"
        with zipfile.ZipFile(wheel) as content:
            content.extractall(common)
        folders = [root / "lib" / python for python in pythons]
        for python, each in zip(pythons, folders, strict=True):
            _install(each, platform, python)
        _share(common, folders)
        write_tarball(target, root)
    return target


def _install(folder: Path, platform: Platform, python: str) -> None:
    """Unpack the dependencies for a Python of another machine."""
    options = [f"--python-platform={platform.triple}", f"--python-version={python}", f"--target={folder}"]
    command = [
        "uv",
        "pip",
        "install",
        "--quiet",
        *options,
        "--no-build",
        "--no-deps",
        "--require-hashes",
        "--no-config",
    ]
    subprocess.run(
        [sys.executable, "-m", *command, "--link-mode=copy", "-r", "requirements.lock"], cwd=ROOT, check=True
    )
    shutil.rmtree(folder / "bin", ignore_errors=True)
    (folder / ".lock").unlink(missing_ok=True)


def _share(common: Path, folders: list[Path]) -> None:
    """Move what is the same for every Python into `common`: packages as a whole, so that imports find all of their files.

    With a single Python, all of them stay with it.
    """
    if len(folders) == 1:
        return
    names = set.intersection(*({path.name for path in folder.iterdir()} for folder in folders))
    for name in sorted(names):
        copies = [folder / name for folder in folders]
        if len({_content(copy) for copy in copies}) == 1:
            copies[0].rename(common / name)
            for copy in copies[1:]:
                shutil.rmtree(copy) if copy.is_dir() else copy.unlink()


def _content(path: Path) -> tuple[tuple[str, str], ...]:
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return tuple((each.relative_to(path).as_posix(), sha256(each)) for each in files)


def krew_manifest(archives: dict[Platform, Path], url: str) -> str:
    """The manifest of the plugin; the archives are below `url`, which is its home page too."""
    platforms = [
        {
            "selector": {"matchLabels": {"os": platform.os, "arch": platform.arch}},
            "uri": f"{url.rstrip('/')}/{file.name}",
            "sha256": sha256(file),
            "files": [{"from": "*", "to": "."}],
            "bin": _BINARY,
        }
        for platform, file in archives.items()
    ]
    description = (
        "Shows why a pod is Pending, who holds which GPUs, what is left of GPU quotas, and what gpu-admission would say of\n"
        "manifests. Reads the cluster with your own rights; some commands also read files.\n"
    )
    document = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "gpu"},
        "spec": {
            "version": f"v{version()}",
            "homepage": url,
            "shortDescription": "Explain Pending GPU pods, quotas and usage",
            "description": description,
            "caveats": f"Needs Python {PYTHONS[0]} to {PYTHONS[-1]} on the PATH, as python3.\n",
            "platforms": platforms,
        },
    }
    return yaml.dump(document, Dumper=_BlockDumper, sort_keys=False, width=1000)


class _BlockDumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, as people do."""

    def represent_str(self, data: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", data, style="|" if "\n" in data else None)


_BlockDumper.add_representer(str, _BlockDumper.represent_str)
