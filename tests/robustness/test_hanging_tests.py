"""A hanging test is reported, even if it catches the exception of its timeout."""

import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).parents[1] / "conftest.py"
SWALLOWS = """
import contextlib
import time

import pytest

def swallow():
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(1)
"""
TEST = """
def test_hangs():
    swallow()
"""
TEARDOWN = """
@pytest.fixture
def world():
    yield
    swallow()

def test_fails(world):
    raise AssertionError
"""


@pytest.mark.parametrize("hangs", [TEST, TEARDOWN], ids=["test", "teardown"])
def test_hanging_test_ends_its_process_and_shows_where(tmp_path, hangs):
    (tmp_path / "conftest.py").write_text(CONFTEST.read_text())
    (tmp_path / "test_it.py").write_text(SWALLOWS + hangs)
    command = [sys.executable, "-m", "pytest", "--timeout=1", "-p", "no:cacheprovider", "-p", "no:xdist", tmp_path]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=50)
    assert done.returncode == 1
    assert "Timeout (0:00:02)!\n" in done.stderr
    assert "in swallow\n" in done.stderr
    assert " passed" not in done.stdout
