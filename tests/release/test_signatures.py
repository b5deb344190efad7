"""OpenSSL and in-toto's own library verify what a release signs, as docs/release.md says."""

import base64
import json
import re
import subprocess
from pathlib import Path

import pytest
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import VerificationError
from securesystemslib.signer import SSlibKey

from release.archives import sha256
from release.project import version
from release.signing import KeyProblemError, image_payload, load_key, main, sign_release

DIGEST = f"sha256:{'0a' * 32}"
IMAGE = f"registry.example.com/gpu-admission@{DIGEST}"
PAGE = Path(__file__).parents[2] / "docs" / "release.md"
FILES = ("chart.tgz", "install.yaml")
PROVENANCE = f"gpu-admission-{version()}.intoto.jsonl"


def openssl(*arguments):
    return subprocess.run(["openssl", *map(str, arguments)], capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def key(tmp_path_factory):
    """A key, made as the page says."""
    file = tmp_path_factory.mktemp("key") / "release.key"
    openssl("genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", file)
    return file


@pytest.fixture
def dist(tmp_path, key):
    """A signed release of two files."""
    (tmp_path / "install.yaml").write_text("kind: Deployment\n")
    (tmp_path / "chart.tgz").write_bytes(b"\x1f\x8b")
    sign_release(tmp_path, load_key(key), {"url": "https://downloads.example.com", "image": IMAGE})
    return tmp_path


def verified(dist, name):
    signature = dist / "signature"
    signature.write_bytes(base64.b64decode((dist / f"{name}.sig").read_text()))
    return openssl("dgst", "-sha256", "-verify", dist / "release.pub", "-signature", signature, dist / name).stdout


def envelope_and_key(dist):
    envelope = Envelope.from_dict(json.loads((dist / PROVENANCE).read_text()))
    ((keyid, _),) = envelope.signatures.items()
    public = (dist / "release.pub").read_text()
    return envelope, SSlibKey(keyid, "ecdsa", "ecdsa-sha2-nistp256", {"public": public})


def test_openssl_verifies_the_checksums_of_all_files(dist):
    assert verified(dist, "SHA256SUMS") == "Verified OK\n"
    names = {line.split("  ")[1] for line in (dist / "SHA256SUMS").read_text().splitlines()}
    assert names == {*FILES, "release.pub", PROVENANCE}


def test_commands_of_the_page_verify_a_release(dist, key):
    main([IMAGE, "--key", str(key), "--dist", str(dist)])
    section = PAGE.read_text().partition("## Check a release\n")[2].partition("\n## ")[0]
    script = "\n".join(re.findall(r"```console\n(.*?)```", section, re.DOTALL))
    done = subprocess.run(["bash", "-e", "-c", script], cwd=dist, capture_output=True, text=True, check=True)
    said = done.stdout.splitlines()
    assert said[0] == "Verified OK"
    assert sorted(said[1:5]) == [f"{name}: OK" for name in sorted([*FILES, "release.pub", PROVENANCE])]
    assert said[5:] == ["Verified OK", "Verified OK", DIGEST]


def test_openssl_refuses_other_checksums(dist):
    (dist / "SHA256SUMS").write_text((dist / "SHA256SUMS").read_text().replace("chart.tgz", "other.tgz"))
    assert verified(dist, "SHA256SUMS") == "Verification failure\n"


def test_library_of_in_toto_verifies_the_provenance(dist):
    envelope, public = envelope_and_key(dist)
    envelope.verify([public], 1)
    statement = json.loads(envelope.payload)
    assert (statement["_type"], statement["predicateType"]) == (
        "https://in-toto.io/Statement/v1",
        "https://slsa.dev/provenance/v1",
    )
    assert statement["subject"] == [{"name": name, "digest": {"sha256": sha256(dist / name)}} for name in FILES]
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"] == {"url": "https://downloads.example.com", "image": IMAGE}
    assert len(definition["resolvedDependencies"][0]["digest"]["gitCommit"]) == 40


def test_library_of_in_toto_refuses_another_statement(dist):
    envelope, public = envelope_and_key(dist)
    envelope.payload = envelope.payload.replace(b"chart.tgz", b"other.tgz")
    with pytest.raises(VerificationError):
        envelope.verify([public], 1)


def test_openssl_verifies_the_signature_of_an_image(dist, key):
    assert main([IMAGE, "--key", str(key), "--dist", str(dist)]) == 0
    payload = f"gpu-admission-{version()}-image.json"
    assert verified(dist, payload) == "Verified OK\n"
    critical = json.loads((dist / payload).read_text())["critical"]
    assert critical["image"] == {"docker-manifest-digest": DIGEST}


def test_image_without_a_digest_is_refused():
    with pytest.raises(
        ValueError, match=r"^name the image by its digest, as registry/name@sha256:...: 'a:1' has none$"
    ):
        image_payload("a:1")


def test_key_of_another_kind_is_refused(tmp_path):
    file = tmp_path / "other.key"
    openssl("genpkey", "-algorithm", "ED25519", "-out", file)
    with pytest.raises(KeyProblemError) as refusal:
        load_key(file)
    assert str(refusal.value) == f"make a key on P-256, as docs/release.md says: {file} has another one"


def test_key_with_a_password_needs_it(tmp_path, key, monkeypatch):
    locked = tmp_path / "locked.key"
    openssl("pkey", "-in", key, "-aes256", "-passout", "pass:secret", "-out", locked)
    with pytest.raises(KeyProblemError, match="its password in RELEASE_KEY_PASSWORD"):
        load_key(locked)
    monkeypatch.setenv("RELEASE_KEY_PASSWORD", "secret")
    assert load_key(locked).curve.name == "secp256r1"
