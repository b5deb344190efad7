"""Key pairs in files that change while they are read."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path, PosixPath

import pytest

from certs import BadKeyPair, KeyPairFiles, issue_serving, make_authority

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
AUTHORITY = make_authority("authority", now=NOW)
FIRST = issue_serving(AUTHORITY, ["a.svc"], now=NOW)
SECOND = issue_serving(AUTHORITY, ["a.svc"], now=NOW)


class SecretVolume:
    """A folder that changes as the kubelet changes a mounted Secret: by turning the link `..data`."""

    def __init__(self, folder, pair):
        self._folder = folder
        self._generation = 0
        self.turn(pair)
        for name in ("tls.crt", "tls.key"):
            (folder / name).symlink_to(Path("..data") / name)
        self.files = KeyPairFiles(folder / "tls.crt", folder / "tls.key")

    def turn(self, pair):
        self._generation += 1
        generation = self._folder / f"..generation_{self._generation}"
        generation.mkdir()
        for name, content in (("tls.crt", pair.certificate_pem), ("tls.key", pair.key_pem)):
            (generation / name).write_bytes(content)
            os.utime(generation / name, (0, 0))
        link = self._folder / "..data_tmp"
        link.symlink_to(generation.name)
        link.rename(self._folder / "..data")


@pytest.fixture
def volume(tmp_path):
    return SecretVolume(tmp_path, FIRST)


def test_read_gives_both_halves(volume):
    assert volume.files.read() == FIRST


def test_turned_volume_reads_as_another_pair_whatever_its_modification_time(volume):
    before = volume.files.read()
    volume.turn(SECOND)
    assert volume.files.read() == SECOND != before


def test_turn_to_the_same_content_reads_as_the_same_pair(volume):
    before = volume.files.read()
    volume.turn(FIRST)
    assert volume.files.read() == before


class TurningPath(PosixPath):
    """A path whose folder changes right after it was read, for as often as there are pairs left."""

    def turning(self, volume, pairs):
        self.volume, self.pairs = volume, pairs
        return self

    def read_bytes(self):
        content = super().read_bytes()
        if self.pairs:
            self.volume.turn(self.pairs.pop())
        return content


def test_turn_between_the_two_reads_gives_one_generation(volume):
    files = KeyPairFiles(TurningPath(volume.files.certificate).turning(volume, [SECOND]), volume.files.key)
    assert files.read() == SECOND


def test_turn_after_the_key_was_read_gives_one_generation(volume):
    files = KeyPairFiles(volume.files.certificate, TurningPath(volume.files.key).turning(volume, [SECOND]))
    assert files.read() == SECOND


def test_volume_that_never_rests_is_left_to_the_check(volume):
    certificate = TurningPath(volume.files.certificate).turning(volume, [FIRST, SECOND] * 5)
    with pytest.raises(BadKeyPair, match="does not belong"):
        KeyPairFiles(certificate, volume.files.key).load(NOW)


def test_load_gives_a_pair_that_can_serve(volume):
    assert volume.files.load(NOW) == FIRST


def test_load_names_the_files_of_a_pair_that_cannot_serve(volume):
    with pytest.raises(BadKeyPair) as raised:
        volume.files.load(FIRST.not_after + timedelta(days=1))
    assert str(raised.value) == (
        f"The key pair in {volume.files.certificate} and {volume.files.key} cannot be used: "
        "The certificate expired at 2027-03-01T12:00:00Z; issue a new one."
    )


@pytest.mark.parametrize("what", ["certificate", "key"])
def test_missing_file_is_named(volume, what):
    path = getattr(volume.files, what)
    path.unlink()
    with pytest.raises(BadKeyPair) as raised:
        volume.files.read()
    assert str(raised.value) == (f"The {what} file {path} does not exist; mount its Secret there, or correct the path.")


def test_folder_in_place_of_a_file_is_named(volume, tmp_path):
    with pytest.raises(BadKeyPair) as raised:
        KeyPairFiles(volume.files.certificate, tmp_path).read()
    assert str(raised.value) == f"The key file {tmp_path} cannot be read: Is a directory."


@pytest.fixture
def unprivileged(volume):
    """Take the right to read the key away. Root may read everything, so it steps down for a while."""
    volume.files.key.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)
    yield
    os.seteuid(user)


@pytest.mark.usefixtures("unprivileged")
def test_forbidden_file_is_named(volume):
    path = volume.files.key
    with pytest.raises(BadKeyPair) as raised:
        KeyPairFiles(path, path).read()
    assert str(raised.value) == f"The certificate file {path} cannot be read: Permission denied."
