"""Key pairs that are reloaded because their files changed."""

import asyncio
import gc
import os
import resource
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256

from certs import KeyPair, KeyPairFiles, issue_serving
from testbed.client_certificates import issue_client
from webhook.server.tls import FileWatcher, ReloadingContext


class Watched:
    """A pair in files, the context that serves it, the watcher between them."""

    def __init__(self, folder, pair):
        self.files = KeyPairFiles(folder / "tls.crt", folder / "tls.key")
        self.write(pair)
        self.now = pair.chain[0].not_valid_before_utc + timedelta(hours=1)
        self.reloading = ReloadingContext(pair, clock=lambda: self.now)
        self.watcher = FileWatcher(self.files, self.reloading)

    def write(self, pair):
        self.files.certificate.write_bytes(pair.certificate_pem)
        self.files.key.write_bytes(pair.key_pem)

    def refused(self, reason):
        until = f"{self.reloading.pair.not_after:%Y-%m-%dT%H:%M:%SZ}"
        text = f"Refused the key pair in {self.files}; still serving the previous one, valid until {until}. {reason}"
        return ("gpu_admission.tls", 40, text)

    def served(self, pair, names="localhost, 127.0.0.1"):
        until = f"{pair.not_after:%Y-%m-%dT%H:%M:%SZ}"
        text = (
            f"Now serving the key pair in {self.files}: SHA-256 {pair.fingerprint}, for {names}, valid until {until}."
        )
        return ("gpu_admission.tls", 20, text)


@pytest.fixture
def mismatched(first, second):
    return KeyPair(first.certificate_pem, second.key_pem)


@pytest.fixture
def watched(tmp_path, first, caplog):
    caplog.set_level("INFO", logger="gpu_admission.tls")
    return Watched(tmp_path, first)


MISMATCH = "The key does not belong to the certificate; use the key that the certificate was issued for."


def test_unchanged_files_change_nothing(watched, first, caplog):
    watched.watcher.poll()
    assert watched.reloading.pair == first
    assert caplog.record_tuples == []


def test_changed_files_are_served_and_logged(watched, second, caplog):
    watched.write(second)
    watched.watcher.poll()
    assert watched.reloading.pair == second
    assert caplog.record_tuples == [watched.served(second)]


def test_pair_without_names_is_logged_as_such(watched, authority, now, caplog):
    nameless = issue_client(authority, "localhost", now=now)
    watched.write(nameless)
    watched.watcher.poll()
    assert caplog.record_tuples == [watched.served(nameless, "no name")]


def test_changed_files_are_served_once(watched, second, caplog):
    watched.write(second)
    watched.watcher.poll()
    watched.watcher.poll()
    assert len(caplog.records) == 1


def test_refused_files_leave_the_old_pair_and_are_logged(watched, first, mismatched, caplog):
    watched.write(mismatched)
    watched.watcher.poll()
    assert watched.reloading.pair == first
    assert caplog.record_tuples == [watched.refused(MISMATCH)]


def test_refused_files_are_logged_once(watched, mismatched, caplog):
    watched.write(mismatched)
    watched.watcher.poll()
    watched.watcher.poll()
    assert len(caplog.records) == 1


def test_other_refused_files_are_logged_again(watched, first, second, mismatched, caplog):
    for pair in (mismatched, KeyPair(second.certificate_pem, first.key_pem)):
        watched.write(pair)
        watched.watcher.poll()
    assert caplog.record_tuples == [watched.refused(MISMATCH)] * 2


def test_files_refused_again_after_good_ones_are_logged_again(watched, first, mismatched, caplog):
    for pair in (mismatched, first, mismatched):
        watched.write(pair)
        watched.watcher.poll()
    assert len(caplog.records) == 2


def test_half_written_files_are_served_when_they_are_complete(watched, second, caplog):
    watched.files.certificate.write_bytes(second.certificate_pem[:300])
    watched.watcher.poll()
    half = watched.refused("The certificate is cut off or damaged: its PEM cannot be parsed; write or copy it again.")
    watched.write(second)
    watched.watcher.poll()
    assert caplog.record_tuples == [half, watched.served(second)]


def test_missing_file_leaves_the_old_pair_and_is_logged_once(watched, first, caplog):
    watched.files.key.unlink()
    watched.watcher.poll()
    watched.watcher.poll()
    assert watched.reloading.pair == first
    assert caplog.record_tuples == [
        watched.refused(
            f"The key file {watched.files.key} does not exist; mount its Secret there, or correct the path."
        )
    ]


def test_certificate_of_tomorrow_is_served_tomorrow(watched, authority, now):
    tomorrow = issue_serving(authority, ["localhost"], now=now + timedelta(days=1))
    watched.write(tomorrow)
    watched.watcher.poll()
    assert watched.reloading.pair != tomorrow
    watched.now += timedelta(days=1)
    watched.watcher.poll()
    assert watched.reloading.pair == tomorrow


def test_lack_of_file_descriptors_is_outlived(watched, second, caplog):
    watched.write(second)
    gc.collect()
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest_free = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest_free)
    # One descriptor is enough to read the files, and not enough to build a context.
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 1, limits[1]))
    try:
        watched.watcher.poll()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert caplog.record_tuples == [watched.refused("[Errno 24] Too many open files")]
    watched.watcher.poll()
    assert watched.reloading.pair == second


async def test_watch_brings_changed_files_to_clients_until_it_is_cancelled(watched, second, client, serve):
    server = await serve(watched.reloading.context)
    watching = asyncio.create_task(watched.watcher.watch(interval=0))
    watched.write(second)
    seen = None
    async with asyncio.timeout(60):
        while seen != second.fingerprint:
            async with server.connect(client()) as connection:
                certificate = connection.ssl_object.getpeercert(binary_form=True)
                seen = x509.load_der_x509_certificate(certificate).fingerprint(SHA256()).hex()
    watching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await watching
