"""The lock, the bill of materials, the manifests and the notes of a release agree with the project."""

import json
from importlib.metadata import requires
from pathlib import Path

import pytest
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.__main__ import write_checksums, write_files
from release.archives import sha256, write_tarball
from release.project import pins, release_notes, version
from release.sbom import bill_of_materials

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


def test_bill_of_materials_is_valid_cyclonedx():
    text = bill_of_materials()
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    bom = json.loads(text)
    assert {each["name"] for each in bom["components"]} == {pin.name for pin in pins()}
    assert (bom["metadata"]["component"]["name"], bom["metadata"]["component"]["version"]) == (
        "gpu-admission",
        version(),
    )
    assert text == bill_of_materials()


def test_bill_of_materials_of_an_image_has_its_debian_packages(tmp_path):
    status = tmp_path / "var" / "lib" / "dpkg" / "status.d"
    status.mkdir(parents=True)
    (status / "libc6").write_text("Package: libc6\nVersion: 2.36-9\nArchitecture: amd64\nDescription: the C library\n")
    (found,) = [each for each in json.loads(bill_of_materials(tmp_path))["components"] if each["name"] == "libc6"]
    assert found["purl"] == "pkg:deb/debian/libc6@2.36-9?arch=amd64"


def test_manifest_of_a_release_runs_its_image(tmp_path):
    write_files(tmp_path, IMAGE)
    objects = list(yaml.safe_load_all((tmp_path / "install.yaml").read_text()))
    (deployment,) = [each for each in objects if each["kind"] == "Deployment"]
    assert [each["image"] for each in deployment["spec"]["template"]["spec"]["containers"]] == [IMAGE]


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
