"""The archive of the plugin for this platform runs with a Python alone, and the manifest is what krew accepts."""

import json
import platform
import re
import subprocess
import sys
import tarfile

import pytest

from release.archives import sha256
from release.plugin import PLATFORMS, PYTHONS, krew_manifest, write_archive
from release.project import version
from testbed import libyaml
from tests.release.conftest import VERSION

pytestmark = pytest.mark.timeout(400)  # the first test builds the archive, which takes minutes beside busy processes

URL = "https://example.com/releases/"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64"}


@pytest.fixture(scope="package")
def here():
    """The platform of this machine."""
    names = (platform.system().lower(), ARCHITECTURES.get(platform.machine()))
    found = [each for each in PLATFORMS if (each.os, each.arch) == names]
    if not found or VERSION not in PYTHONS:
        pytest.skip(f"there is no archive for {' '.join(map(str, names))} and Python {VERSION}")
    return found[0]


@pytest.fixture(scope="package")
def archive(once, here, wheel):
    """The archive of this platform, for this Python alone."""
    return once("archive", lambda folder: write_archive(folder, here, wheel, [VERSION])) / here.archive


@pytest.fixture(scope="module")
def unpacked(archive, tmp_path_factory):
    folder = tmp_path_factory.mktemp("unpacked")
    subprocess.run(["tar", "-xf", archive, "-C", folder], check=True)
    return folder


def run(folder, *arguments):
    # -I -S: nothing of the environment that runs the tests.
    command = [sys.executable, "-I", "-S", folder / "kubectl-gpu", *arguments]
    return subprocess.run(
        command, cwd=folder, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=False
    )


def test_plugin_runs_with_a_python_alone(unpacked):
    done = run(unpacked, "review", "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: kubectl gpu review")


def test_plugin_reviews_with_native_packages(unpacked):
    examples = unpacked / "lib" / "common" / "webhook" / "shipped" / "examples"
    done = run(unpacked, "review", "--cluster", examples / "cluster", "-f", examples / "refused-selector")
    assert done.returncode == 1, done.stderr
    assert "[GA307]" in done.stdout


def test_unsupported_python_is_refused_with_the_supported_ones(unpacked):
    packages = (unpacked / "lib" / VERSION).rename(unpacked / "lib" / "3.99")
    done = run(unpacked, "--help")
    packages.rename(unpacked / "lib" / VERSION)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"kubectl gpu needs Python 3.99 to 3.99; python3 is {VERSION}\n"


def test_launcher_is_executable_and_the_licence_is_there(archive):
    with tarfile.open(archive) as content:
        modes = {entry.name: entry.mode for entry in content.getmembers()}
    assert modes["kubectl-gpu"] == 0o755
    assert modes["LICENSE"] == 0o644


def test_manifest_is_what_krew_accepts(archive, here):
    """Source: krew internal/index/validation: names, versions, one platform selected once, files and bin."""
    manifest = libyaml.load(krew_manifest({here: archive}, URL))
    assert (manifest["apiVersion"], manifest["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert re.fullmatch(r"[\w-]+", manifest["metadata"]["name"])
    spec = manifest["spec"]
    assert spec["version"] == f"v{version()}"
    assert 0 < len(spec["shortDescription"]) <= 50
    assert "\n" not in spec["shortDescription"]
    (entry,) = spec["platforms"]
    assert entry["selector"] == {"matchLabels": {"os": here.os, "arch": here.arch}}
    assert (entry["uri"], entry["sha256"]) == (f"{URL}{here.archive}", sha256(archive))
    with tarfile.open(archive) as content:
        assert entry["bin"] in content.getnames()
    assert entry["files"] == [{"from": "*", "to": "."}]


def test_platforms_are_selected_once():
    assert len({(each.os, each.arch) for each in PLATFORMS}) == len(PLATFORMS)
    assert json.dumps(sorted(PYTHONS)) == json.dumps(list(PYTHONS))
