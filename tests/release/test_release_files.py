"""The lock, the manifests and the notes of a release agree with the project."""

import re
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.__main__ import has_sources, main, manifest_with_image, write_files
from release.archives import sha256, write_tarball
from release.project import pins, release_notes, version
from release.signing import write_checksums
from testbed import libyaml

ROOT = Path(__file__).parents[2]
IMAGE = "registry.example.com/gpu-admission@sha256:0"


def closure(names):
    """The names of packages with what they require, as installed here."""
    found, left = set(), {*names}
    while left:
        name = canonicalize_name(left.pop())
        found.add(name)
        wanted = map(Requirement, requires(name) or ())
        needed = {
            canonicalize_name(each.name) for each in wanted if not each.marker or each.marker.evaluate({"extra": ""})
        }
        left |= needed - found
    return found


def test_lock_has_what_the_project_requires():
    assert {canonicalize_name(pin.name) for pin in pins()} >= closure(["gpu-admission"]) - {"gpu-admission"}


def test_lock_has_the_versions_of_the_constraints():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    tested = dict(line.split("==") for line in lines if "==" in line)
    tested = {canonicalize_name(name): number for name, number in tested.items()}
    locked = {canonicalize_name(pin.name): pin.version for pin in pins()}
    assert locked.items() <= tested.items()


def test_every_pin_has_hashes():
    assert all(pin.hashes for pin in pins())


def test_manifest_of_a_release_runs_its_image(tmp_path):
    write_files(tmp_path, IMAGE)
    objects = list(libyaml.load_all((tmp_path / "install.yaml").read_text()))
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    assert [each["image"] for each in deployment["spec"]["template"]["spec"]["containers"]] == [IMAGE]


def test_manifest_of_another_version_is_refused():
    other = f"        image: gpu-admission:{version()}.1\n"
    with pytest.raises(ValueError, match=re.escape(f"'image: gpu-admission:{version()}' 0 times, not once")):
        manifest_with_image(other, IMAGE)


@pytest.mark.parametrize(
    "url",
    [
        "downloads.example.com",
        "ftp://example.com/",
        "https:///gpu.yaml",
        "https://example.com/a b",
        "https://example.com/a?token=b",
        "https://example.com/a#b",
    ],
)
def test_url_that_krew_cannot_use_is_refused(url, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--url", url, "--image", IMAGE, "--dist", str(tmp_path)])
    assert capsys.readouterr().err.endswith(
        f"error: --url must begin with https:// or http:// and have no query and no fragment, not {url!r}: krew downloads URL/FILE\n"
    )


@pytest.mark.parametrize(
    "image",
    ["", "a b:1", "registry.example.com/a", 'a:"1', "a:1\n  evil: b", "registry.example.com/a@sha256:0", "a/:1"],
)
def test_image_that_no_registry_has_is_refused(image, tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["--url", "https://example.com", "--image", image, "--dist", str(tmp_path)])
    said = f"error: --image must be registry/name:tag or registry/name@sha256:..., not {image!r}\n"
    assert capsys.readouterr().err.endswith(said)


def test_folder_of_the_sources_is_not_one_to_empty(tmp_path):
    # Not by running the command: without the check, it would delete this checkout.
    assert [has_sources(folder) for folder in (ROOT, ROOT.parent, ROOT / "dist", tmp_path)] == [
        True,
        True,
        False,
        False,
    ]


def test_notes_are_those_of_the_changelog():
    notes = release_notes(version())
    assert notes.startswith(f"# gpu-admission {version()}\n\n")
    assert "\n## [" not in notes


def test_checksums_are_what_sha256sum_reads(tmp_path):
    (tmp_path / "b").write_text("b")
    (tmp_path / "a").write_text("a")
    write_checksums(tmp_path)
    assert (tmp_path / "SHA256SUMS").read_text() == f"{sha256(tmp_path / 'a')}  a\n{sha256(tmp_path / 'b')}  b\n"


@pytest.mark.parametrize("prefix", ["", "gpu-admission/"])
def test_archives_depend_on_content_only(tmp_path, prefix):
    for name in ("first", "second"):
        (tmp_path / name / "folder").mkdir(parents=True)
        (tmp_path / name / "folder" / "file").write_text("text")
        write_tarball(tmp_path / f"{name}.tar.gz", tmp_path / name, prefix)
    assert sha256(tmp_path / "first.tar.gz") == sha256(tmp_path / "second.tar.gz")
