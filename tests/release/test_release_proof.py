"""A whole release: the same bytes twice, archives for their platforms, a lock that is current, and what krew says.

`make release-proof` runs this: about five minutes, and 300 MB from PyPI.
"""

import os
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from release.archives import sha256
from release.plugin import PLATFORMS, PYTHONS
from release.project import version

ROOT = Path(__file__).parents[2]
RELEASE = ["--url=https://downloads.example.com/gpu-admission", "--image=registry.example.com/gpu-admission:proof"]
KREW = shutil.which("krew") or shutil.which("kubectl-krew")
ELF, MACH_O, UNIVERSAL = b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe"

pytestmark = pytest.mark.skipif(os.environ.get("RELEASE_PROOF") != "full", reason="takes minutes: `make release-proof`")


def run(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def write_release(folder):
    run(sys.executable, "-m", "release", *RELEASE, f"--dist={folder}", cwd=ROOT)


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    folder = tmp_path_factory.mktemp("release") / "dist"
    write_release(folder)
    return folder


def test_checksums_hold_for_every_file(dist):
    said = run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=dist)
    assert {line.removesuffix(": OK") for line in said.splitlines()} == {
        file.name for file in dist.iterdir() if file.name != "SHA256SUMS"
    }


def test_release_has_the_files_of_its_page(dist):
    rows = re.findall(r"^\| (`.+?`) \| .+ \|$", (ROOT / "docs" / "release.md").read_text(), re.MULTILINE)
    patterns = [
        name.replace("VERSION", version()).replace("OS-ARCH", "*")
        for row in rows
        for name in re.findall(r"`(.+?)`", row)
    ]
    written = {file.name for file in dist.iterdir()}
    assert {file.name for pattern in patterns for file in dist.glob(pattern)} == written


def test_second_release_has_the_same_bytes(dist, tmp_path):
    write_release(tmp_path / "dist")
    assert {file.name: sha256(file) for file in (tmp_path / "dist").iterdir()} == {
        file.name: sha256(file) for file in dist.iterdir()
    }


def machine(content):
    """The machine of a native file, as its format numbers it; None for other files."""
    if content.startswith(ELF):
        return {0x3E: "linux-amd64", 0xB7: "linux-arm64"}[int.from_bytes(content[18:20], "little")]
    if content.startswith(MACH_O):
        return {0x0100000C: "darwin-arm64"}[int.from_bytes(content[4:8], "little")]
    return "darwin-arm64" if content.startswith(UNIVERSAL) and b"\x01\x00\x00\x0c" in content[:64] else None


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda each: f"{each.os}-{each.arch}")
def test_native_files_of_an_archive_are_of_its_platform(dist, platform):
    native = {}
    with tarfile.open(dist / platform.archive) as archive:
        for entry in archive:
            if found := machine(archive.extractfile(entry).read(64)):
                native[entry.name] = found
    assert {*native.values()} == {f"{platform.os}-{platform.arch}"}
    for python in PYTHONS:
        assert any(name.startswith(f"lib/{python}/pydantic_core/") for name in native)


@pytest.mark.parametrize("platform", PLATFORMS, ids=lambda each: f"{each.os}-{each.arch}")
def test_krew_installs_an_archive(dist, platform, tmp_path):
    if KREW is None:
        pytest.skip("no krew in PATH")
    variables = {
        "KREW_ROOT": str(tmp_path),
        "KREW_OS": platform.os,
        "KREW_ARCH": platform.arch,
        "PATH": os.environ["PATH"],
    }
    files = [f"--manifest={dist / 'gpu.yaml'}", f"--archive={dist / platform.archive}"]
    run(KREW, "install", *files, env=variables, stdin=subprocess.DEVNULL)
    plugin = tmp_path / "bin" / "kubectl-gpu"
    assert plugin.resolve() == (tmp_path / "store" / "gpu" / f"v{version()}" / "kubectl-gpu").resolve()
    assert os.access(plugin, os.X_OK)


def test_lock_is_what_the_requirements_resolve_to(tmp_path):
    """Without hashes: files may be added to a version later."""
    target = tmp_path / "requirements.lock"
    target.write_text((ROOT / "requirements.lock").read_text())
    run("make", "-C", ROOT, "lock", f"LOCK={target}")
    resolved, locked = (
        re.findall(r"^[a-z].+==.+?(?= \\)", file.read_text(), re.MULTILINE)
        for file in (target, ROOT / "requirements.lock")
    )
    assert resolved == locked
