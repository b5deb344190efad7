"""Signatures of a release, by an ECDSA key on P-256, as `openssl dgst -verify` and `cosign verify-blob --key` check them.

`python -m release.signing IMAGE@DIGEST --key KEY` writes the payload for an image and its signature into `dist`; `make sign-image`
calls it.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from release.archives import sha256
from release.project import PRODUCT, ROOT, pins, version

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

CHECKSUMS = "SHA256SUMS"
PASSWORD = "RELEASE_KEY_PASSWORD"  # noqa: S105 - the name of a variable
"""The environment variable with the password of the key; unset if the key has none."""
_PAYLOAD_TYPE = "application/vnd.in-toto+json"
_BUILD_TYPE = "https://gpu-admission.io/make-release/v1"
_PINNED_IMAGE = re.compile(r"(?P<name>[^@\s]+)@(?P<digest>sha256:[0-9a-f]{64})")


class KeyProblemError(Exception):
    """Raised if a key cannot sign a release."""


def load_key(file: Path) -> EllipticCurvePrivateKey:
    """The private key in a PEM file.

    Raises:
        KeyProblemError: It cannot be read, or is no key on P-256.
    """
    password = os.environ.get(PASSWORD)
    try:
        key = serialization.load_pem_private_key(file.read_bytes(), password.encode() if password else None)
    except (OSError, TypeError, ValueError) as error:
        raise KeyProblemError(f"write the PEM file of a key, and its password in {PASSWORD}: {file}: {error}") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise KeyProblemError(f"make a key on P-256, as docs/release.md says: {file} has another one")
    return key


def sign_release(dist: Path, key: EllipticCurvePrivateKey, parameters: dict[str, str]) -> None:
    """Write the provenance of the files, the public key, the checksums of all of them, and their signature."""
    statement = json.dumps(_provenance(dist, parameters), indent=2).encode()
    (dist / f"{PRODUCT}-{version()}.intoto.jsonl").write_text(f"{json.dumps(_envelope(statement, key))}\n")
    (dist / "release.pub").write_bytes(_public_key(key))
    write_checksums(dist)
    (dist / f"{CHECKSUMS}.sig").write_text(f"{_signature((dist / CHECKSUMS).read_bytes(), key)}\n")


def write_checksums(dist: Path) -> None:
    """Write SHA256SUMS, as `sha256sum --check` reads it."""
    lines = [f"{sha256(file)}  {file.name}\n" for file in sorted(dist.iterdir()) if file.name != CHECKSUMS]
    (dist / CHECKSUMS).write_text("".join(lines))


def _provenance(dist: Path, parameters: dict[str, str]) -> dict[str, Any]:
    """The statement about what was built from which sources; SLSA's provenance, without the time, so that it is reproducible.

    Source: https://slsa.dev/spec/v1.1/provenance, https://in-toto.io/Statement/v1.
    """
    source = {"uri": f"git+{PRODUCT}", "digest": {"gitCommit": _git("rev-parse", "HEAD")}}
    packages = [{"uri": f"pkg:pypi/{pin.name}@{pin.version}"} for pin in pins()]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": file.name, "digest": {"sha256": sha256(file)}} for file in sorted(dist.iterdir())],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": _BUILD_TYPE,
                "externalParameters": parameters,
                "internalParameters": {
                    "python": sys.version.partition(" ")[0],
                    "sourcesChanged": bool(_git("status", "--porcelain")),
                },
                "resolvedDependencies": [source, *packages],
            },
            "runDetails": {"builder": {"id": os.environ.get("RELEASE_BUILDER", _BUILD_TYPE)}},
        },
    }


def _git(*arguments: str) -> str:
    command = ["/usr/bin/env", "git", *arguments]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _envelope(payload: bytes, key: EllipticCurvePrivateKey) -> dict[str, Any]:
    """A payload in an envelope with its signature.

    Source: https://github.com/secure-systems-lab/dsse protocol.md.
    """
    signed = b"DSSEv1 %d %s %d %s" % (len(_PAYLOAD_TYPE), _PAYLOAD_TYPE.encode(), len(payload), payload)
    return {
        "payloadType": _PAYLOAD_TYPE,
        "payload": base64.b64encode(payload).decode(),
        "signatures": [{"keyid": hashlib.sha256(_public_key(key)).hexdigest(), "sig": _signature(signed, key)}],
    }


def image_payload(image: str) -> bytes:
    """The text that the signature of an image signs, as cosign lays it out.

    Raises:
        ValueError: The image has no digest.

    Source: https://github.com/sigstore/cosign specs/SIGNATURE_SPEC.md.
    """
    found = _PINNED_IMAGE.fullmatch(image)
    if found is None:
        raise ValueError(f"name the image by its digest, as registry/name@sha256:...: {image!r} has none")
    critical = {
        "identity": {"docker-reference": found["name"]},
        "image": {"docker-manifest-digest": found["digest"]},
        "type": "cosign container image signature",
    }
    return json.dumps({"critical": critical, "optional": None}, separators=(",", ":")).encode()


def _signature(content: bytes, key: EllipticCurvePrivateKey) -> str:
    return base64.b64encode(key.sign(content, ec.ECDSA(hashes.SHA256()))).decode()


def _public_key(key: EllipticCurvePrivateKey) -> bytes:
    return key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)


def main(arguments: list[str]) -> int:
    """Sign an image; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m release.signing", description=__doc__)
    parser.add_argument("image", help="the image in the registry, with its digest")
    parser.add_argument("--key", type=Path, required=True, help="the private key, as PEM")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="the folder to write into")
    given = parser.parse_args(arguments)
    try:
        payload, key = image_payload(given.image), load_key(given.key)
    except (KeyProblemError, ValueError) as error:
        parser.error(str(error))
    given.dist.mkdir(parents=True, exist_ok=True)
    stem = given.dist / f"{PRODUCT}-{version()}-image"
    stem.with_name(f"{stem.name}.json").write_bytes(payload)
    stem.with_name(f"{stem.name}.json.sig").write_text(f"{_signature(payload, key)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
