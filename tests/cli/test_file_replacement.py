"""Files that commands write as a whole."""

from __future__ import annotations

import os
import stat
import threading

import pytest

from webhook.cli.folders import replace_file


@pytest.fixture
def umask():
    """A umask of a careful user."""
    before = os.umask(0o077)
    yield
    os.umask(before)


def test_new_file_is_as_readable_as_the_user_wants(tmp_path, umask):
    replace_file(str(tmp_path / "report.html"), b"x")
    assert stat.S_IMODE((tmp_path / "report.html").stat().st_mode) == 0o600


def test_existing_file_keeps_its_mode(tmp_path):
    file = tmp_path / "report.html"
    file.write_bytes(b"before")
    file.chmod(0o640)
    replace_file(str(file), b"after")
    assert (file.read_bytes(), stat.S_IMODE(file.stat().st_mode)) == (b"after", 0o640)


def test_pipe_is_written_to_and_stays_one(tmp_path):
    """So do devices: as root, replacing /dev/null would break the machine."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    found = []
    reader = threading.Thread(target=lambda: found.append(pipe.read_bytes()))
    reader.start()
    replace_file(str(pipe), b"page")
    reader.join()
    assert found == [b"page"]
    assert stat.S_ISFIFO(pipe.stat().st_mode)
