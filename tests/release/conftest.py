"""What a release publishes, built once for all tests that ask."""

import subprocess
import sys

import pytest

from release.__main__ import write_packages

VERSION = ".".join(map(str, sys.version_info[:2]))


@pytest.fixture(scope="package")
def packages(once):
    """The folder of a wheel and an sdist."""
    return once("packages", write_packages)


@pytest.fixture(scope="package")
def wheel(packages):
    (wheel,) = packages.glob("*.whl")
    return wheel


@pytest.fixture(scope="package")
def environment(once, wheel):
    """The folder of the programs of an environment that holds only the wheel and what it requires."""

    def install(folder):
        uv = [sys.executable, "-m", "uv", "--no-config", "--quiet"]
        subprocess.run([*uv, "venv", "--python", sys.executable, folder / "venv"], check=True)
        python = folder / "venv" / "bin" / "python"
        constraints = ["--constraint", "constraints.txt"]
        subprocess.run([*uv, "pip", "install", "--python", python, *constraints, wheel], check=True)

    return once("environment", install) / "venv" / "bin"
