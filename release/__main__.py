"""`python -m release --url URL --image IMAGE [--key KEY]`: write everything that a release publishes into `dist`."""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

from release.chart import write_chart
from release.plugin import PLATFORMS, krew_manifest, write_archive
from release.project import PRODUCT, ROOT, release_notes, version
from release.sbom import bill_of_materials
from release.signing import CHECKSUMS, KeyProblemError, load_key, sign_release, write_checksums

_PATH = r"[a-z0-9][a-z0-9._-]*"
_IMAGE = re.compile(
    rf"([A-Za-z0-9][A-Za-z0-9.-]*(:[0-9]+)?/)?{_PATH}(/{_PATH})*"
    r"(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64}|:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}@sha256:[0-9a-f]{64})"
)
"""An image with a tag, a digest, or both."""


def write_packages(dist: Path) -> Path:
    """Write the wheel and the sdist into an empty folder; returns the wheel."""
    subprocess.run([sys.executable, "-m", "build", "--outdir", str(dist), str(ROOT)], check=True)
    (wheel,) = dist.glob("*.whl")
    return wheel


def write_files(dist: Path, image: str) -> None:
    """Write manifests, chart, bill of materials and notes.

    Raises:
        ValueError: install.yaml or the chart does not name the image of this version.
        NoNotesError: The changelog says nothing about this version.
    """
    number = version()
    manifest = (ROOT / "deploy" / "install.yaml").read_text()
    (dist / "install.yaml").write_text(manifest_with_image(manifest, image))
    write_chart(dist, image)
    (dist / f"{PRODUCT}-{number}.cdx.json").write_text(bill_of_materials())
    (dist / "RELEASE_NOTES.md").write_text(release_notes(number))


def manifest_with_image(manifest: str, image: str) -> str:
    """The manifests, with another image than that of this version.

    Raises:
        ValueError: They do not name the image of this version exactly once.
    """
    own = f"image: {PRODUCT}:{version()}\n"
    if manifest.count(own) != 1:
        raise ValueError(
            f"deploy/install.yaml has the line {own.strip()!r} {manifest.count(own)} times, not once; "
            "set the version of pyproject.toml in deploy/base/service/deployment.yaml and run `make manifests`"
        )
    return manifest.replace(own, f"image: {image}\n")


def has_sources(folder: Path) -> bool:
    """True if the checkout is in a folder, which must not be emptied then."""
    return ROOT.resolve().is_relative_to(folder.resolve())


def main(arguments: list[str]) -> int:
    """Write a release; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m release", description=__doc__)
    parser.add_argument("--url", required=True, help="where the files will be downloaded from")
    parser.add_argument("--image", required=True, help="the image in install.yaml and in the chart")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist", help="the folder to write, which is emptied")
    parser.add_argument("--key", type=Path, help="the private key that signs, as PEM; without it, nothing is signed")
    given = parser.parse_args(arguments)
    if not re.fullmatch(r"https?://[^\s/?#]+(/[^\s?#]*)?", given.url):
        parser.error(
            f"--url must begin with https:// or http:// and have no query and no fragment, not {given.url!r}: krew downloads "
            "URL/FILE"
        )
    if not _IMAGE.fullmatch(given.image):
        parser.error(f"--image must be registry/name:tag or registry/name@sha256:..., not {given.image!r}")
    dist: Path = given.dist
    if has_sources(dist):
        parser.error(f"--dist {dist} has the sources in it, and would be emptied; name a folder of its own")
    try:
        key = load_key(given.key) if given.key else None
    except KeyProblemError as error:
        parser.error(f"--key: {error}")
    if dist.exists():
        shutil.rmtree(dist)
    dist.mkdir(parents=True)
    wheel = write_packages(dist)
    write_files(dist, given.image)
    archives = {platform: write_archive(dist, platform, wheel) for platform in PLATFORMS}
    (dist / "gpu.yaml").write_text(krew_manifest(archives, given.url))
    if key:
        sign_release(dist, key, {"url": given.url, "image": given.image})
    else:
        write_checksums(dist)
    sys.stdout.write((dist / CHECKSUMS).read_text())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
