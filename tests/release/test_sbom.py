"""The bills of materials are valid, the same each time, and name what is installed with its licence."""

import json

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from release.project import pins, version
from release.sbom import bill_of_materials

LIBSSL = """\
Package: libssl3t64
Architecture: amd64
Version: 3.5.4-1
Depends: libc6 (>= 2.38), libzstd1 (>= 1.5.5) | zstd, openssl-provider-legacy
Description: the library of TLS
 Depends: this is no field
"""


@pytest.fixture
def image(tmp_path):
    """The root of an image with three Debian packages."""
    status = tmp_path / "var" / "lib" / "dpkg" / "status.d"
    status.mkdir(parents=True)
    (status / "libssl3t64").write_text(LIBSSL)
    for name in ("libc6", "libzstd1"):
        (status / name).write_text(f"Package: {name}\nVersion: 2.41-12\nArchitecture: amd64\n")
    return tmp_path


def dependencies(bom):
    return {each["ref"]: each.get("dependsOn", []) for each in bom["dependencies"]}


def test_bill_of_materials_is_valid_cyclonedx(image):
    for root in (None, image):
        assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(bill_of_materials(root)) is None


def test_second_bill_of_materials_is_the_same(image):
    assert bill_of_materials() == bill_of_materials()
    assert bill_of_materials(image) == bill_of_materials(image)


def test_bill_of_materials_has_all_that_is_locked():
    bom = json.loads(bill_of_materials())
    assert {(each["name"], each["version"]) for each in bom["components"]} == {
        (pin.name, pin.version) for pin in pins()
    }
    subject = bom["metadata"]["component"]
    assert (subject["name"], subject["version"], subject["type"]) == ("gpu-admission", version(), "application")


def test_every_package_is_required_by_another_one():
    required = dependencies(json.loads(bill_of_materials()))
    assert {"pypi-aiohttp", "pypi-cel-python"} <= {*required["gpu-admission"]}
    assert "pypi-cffi" not in required["gpu-admission"]
    assert "pypi-cffi" in required["pypi-cryptography"]
    assert {name for names in required.values() for name in names} == {*required} - {"gpu-admission"}


def test_packages_have_the_licence_that_they_state():
    licences = {each["name"]: each.get("licenses") for each in json.loads(bill_of_materials())["components"]}
    assert licences["cryptography"] == [{"expression": "Apache-2.0 OR BSD-3-Clause"}]  # License-Expression
    assert licences["certifi"] == [{"license": {"id": "MPL-2.0"}}]  # License
    assert licences["google-re2"] == [{"license": {"name": "BSD License"}}]  # a classifier
    assert [name for name, found in licences.items() if not found] == ["cel-python"]  # states none


def test_bill_of_materials_of_an_image_has_its_debian_packages(image):
    bom = json.loads(bill_of_materials(image))
    by_name = {each["name"]: each for each in bom["components"]}
    assert by_name["libssl3t64"]["purl"] == "pkg:deb/debian/libssl3t64@3.5.4-1?arch=amd64"
    required = dependencies(bom)
    assert required["deb-libssl3t64"] == ["deb-libc6", "deb-libzstd1"]
    assert required["image"] == ["deb-libc6", "deb-libssl3t64", "deb-libzstd1", "gpu-admission"]


def test_bill_of_materials_of_an_image_is_another_document(image):
    ours, images = json.loads(bill_of_materials()), json.loads(bill_of_materials(image))
    assert images["metadata"]["component"]["type"] == "container"
    assert images["serialNumber"] != ours["serialNumber"]
