"""What a release publishes, built once for all tests that ask."""

import subprocess
import sys

import pytest

from release.__main__ import write_packages

VERSION = ".".join(map(str, sys.version_info[:2]))


@pytest.fixture(scope="package")
def packages(tmp_path_factory):
    """The folder of a wheel and an sdist."""
    dist = tmp_path_factory.mktemp("packages")
    write_packages(dist)
    return dist


@pytest.fixture(scope="package")
def wheel(packages):
    (wheel,) = packages.glob("*.whl")
    return wheel


@pytest.fixture(scope="package")
def environment(wheel, tmp_path_factory):
    """The folder of the programs of an environment that holds only the wheel and what it requires."""
    folder = tmp_path_factory.mktemp("environment")
    uv = [sys.executable, "-m", "uv", "--no-config", "--quiet"]
    subprocess.run([*uv, "venv", "--python", sys.executable, folder / "venv"], check=True)
    python = folder / "venv" / "bin" / "python"
    constraints = ["--constraint", "constraints.txt"]
    subprocess.run([*uv, "pip", "install", "--python", python, *constraints, wheel], check=True)
    return python.parent
