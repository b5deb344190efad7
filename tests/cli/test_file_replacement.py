"""Files that commands write as a whole."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from webhook.cli import user_files
from webhook.cli.user_files import FileVersion, UserFileError, replace_file


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


@pytest.fixture
def file(tmp_path):
    """A file that a command has read."""
    file = tmp_path / "pod.yaml"
    file.write_bytes(b"before")
    return file


def test_version_that_was_read_is_replaced(file):
    replace_file(str(file), b"after", FileVersion.of(str(file)))
    assert file.read_bytes() == b"after"
    assert [each.name for each in file.parent.iterdir()] == ["pod.yaml"]


@pytest.mark.parametrize("edit", ["written", "renamed"])
def test_file_that_was_edited_is_not_replaced(file, edit):
    version = FileVersion.of(str(file))
    if edit == "written":
        file.write_bytes(b"edited")
    else:
        (file.parent / "new").write_bytes(b"before")
        (file.parent / "new").rename(file)
    before = file.read_bytes()
    with pytest.raises(UserFileError, match="was changed after it was read; run the command again"):
        replace_file(str(file), b"after", version)
    assert (file.read_bytes(), len([*file.parent.iterdir()])) == (before, 1)


def racing(monkeypatch, *edits):
    """Let an editor save after the file was compared, each time before names are exchanged."""
    exchange, left = user_files._exchange, [*edits]

    def edit_and_exchange(one, other):
        if left:
            left.pop(0)()
        return exchange(one, other)

    monkeypatch.setattr(user_files, "_exchange", edit_and_exchange)


def saved(file, text, *, renames):
    """Save a text as editors do, by a new file or in place."""
    written = file.with_suffix(".swap") if renames else file
    written.write_text(text)
    written.rename(file)


@pytest.mark.parametrize("renames", [True, False], ids=["renamed", "in-place"])
def test_edit_at_the_last_moment_is_not_lost(file, monkeypatch, renames):
    racing(monkeypatch, lambda: saved(file, "edited", renames=renames))
    with pytest.raises(UserFileError, match="was changed after it was read; run the command again"):
        replace_file(str(file), b"after", FileVersion.of(str(file)))
    assert (file.read_text(), len([*file.parent.iterdir()])) == ("edited", 1)


def test_second_edit_while_the_first_is_put_back_is_kept_beside_it(file, monkeypatch):
    edits = [lambda text=text: saved(file, text, renames=False) for text in ("first", "second")]
    racing(monkeypatch, *edits)
    with pytest.raises(UserFileError, match="one of the changes is in ") as raised:
        replace_file(str(file), b"after", FileVersion.of(str(file)))
    assert file.read_text() == "first"
    assert Path(raised.value.strerror.rpartition(" is in ")[2]).read_text() == "second"


def test_file_is_replaced_where_names_cannot_be_exchanged(file, monkeypatch):
    monkeypatch.setattr(user_files, "_exchange", lambda *_: False)
    replace_file(str(file), b"after", FileVersion.of(str(file)))
    assert (file.read_bytes(), len([*file.parent.iterdir()])) == (b"after", 1)


def test_file_with_hard_links_is_refused(file):
    os.link(file, file.parent / "other.yaml")
    with pytest.raises(UserFileError, match="has 2 hard links, and the others would keep its former content"):
        replace_file(str(file), b"after")
    assert file.read_bytes() == b"before"


def test_extended_attributes_stay(file):
    os.setxattr(file, "user.origin", b"vendor")
    replace_file(str(file), b"after")
    assert os.getxattr(file, "user.origin") == b"vendor"


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")


@as_root
def test_owner_stays(file):
    os.chown(file, 1234, 5678)
    replace_file(str(file), b"after")
    status = file.stat()
    assert (file.read_bytes(), status.st_uid, status.st_gid) == (b"after", 1234, 5678)


@as_root
def test_file_of_another_user_is_refused_if_it_would_change_hands(file, monkeypatch):
    os.chown(file, 1234, 5678)

    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "chown", refuse)
    with pytest.raises(UserFileError, match="belongs to another user or group, and would be yours"):
        replace_file(str(file), b"after")
    assert (file.read_bytes(), len([*file.parent.iterdir()])) == (b"before", 1)
