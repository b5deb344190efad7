"""A key pair that lies in two files, as a mounted Secret or an administrator puts it there.

The only file reading of this package. The kubelet replaces a mounted Secret by turning one symbolic link (`..data`)
to a new folder, so both files change at once, but two reads can still fall on either side of the turn.
Modification times say little there (the new folder's files may well be older), so changes are found by content:
read again, and compare the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from certs.keypair import BadKeyPair, KeyPair

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

ATTEMPTS = 3
"""How often a pair is read that keeps changing; a writer that is faster than this is left to the next poll."""


@dataclass(frozen=True)
class KeyPairFiles:
    """Where a key pair lies: `--tls-cert` and `--tls-key`."""

    certificate: Path
    key: Path

    def __str__(self) -> str:
        return f"{self.certificate} and {self.key}"

    def read(self) -> KeyPair:
        """Read both files as they are now, without judging what they hold.

        The certificate is read again after the key: when it is still the same, the key was read from the same
        generation of the Secret.

        Raises:
            BadKeyPair: A file is missing or cannot be read.
        """
        certificate = _read("certificate", self.certificate)
        for _ in range(ATTEMPTS):
            pair = KeyPair(certificate, _read("key", self.key))
            certificate = _read("certificate", self.certificate)
            if certificate == pair.certificate_pem:
                break
        return pair

    def load(self, now: datetime) -> KeyPair:
        """Read both files, and refuse what could not serve now.

        Raises:
            BadKeyPair: A file is missing or cannot be read, or the pair does not pass `KeyPair.check`;
                the sentence names the files.
        """
        pair = self.read()
        try:
            pair.check(now)
        except BadKeyPair as error:
            raise BadKeyPair(f"The key pair in {self} cannot be used: {error}") from error
        return pair


def _read(what: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError as error:
        raise BadKeyPair(
            f"The {what} file {path} does not exist; mount its Secret there, or correct the path."
        ) from error
    except OSError as error:
        raise BadKeyPair(f"The {what} file {path} cannot be read: {error.strerror}.") from error
