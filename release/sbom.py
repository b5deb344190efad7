"""The software bill of materials as CycloneDX 1.6: of what pip and the plugin install, or of the image.

`python -m release.sbom ROOT` prints that of the image whose root is unpacked there; `make image` calls it.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from release.archives import TIME
from release.project import PRODUCT, pins, version

if TYPE_CHECKING:
    from cyclonedx.model.license import License


_STATUS = ("var", "lib", "dpkg", "status.d")
"""Where the image keeps the control data of its Debian packages."""
_FIELD = re.compile(r"^([A-Z][\w-]*): (.*)$", re.MULTILINE)


def bill_of_materials(root: Path | None = None) -> str:
    """The bill of materials of this version as JSON.

    Licences are those that the installed packages state, so it needs the versions of requirements.lock; packages that state
    none have none.

    Args:
        root: The root of an unpacked image, or its folder `var/lib/dpkg/status.d` alone; None for the Python packages alone.
    """
    bom = Bom()
    product = _product()
    _add_python_packages(bom, product)
    subject = product if root is None else _add_image(bom, product, root)
    bom.metadata.component = subject
    # The present time and a random number would make each build differ.
    bom.serial_number = uuid5(NAMESPACE_URL, f"{subject.purl}")
    bom.metadata.timestamp = TIME
    return f"{JsonV1Dot6(bom).output_as_string(indent=2)}\n"


def _product() -> Component:
    return Component(
        name=PRODUCT,
        version=version(),
        type=ComponentType.APPLICATION,
        bom_ref=PRODUCT,
        purl=PackageURL("pypi", None, PRODUCT, version()),
        licenses=[LicenseExpression("Apache-2.0")],
    )


def _add_python_packages(bom: Bom, product: Component) -> None:
    packages = {
        pin.name: Component(
            name=pin.name,
            version=pin.version,
            type=ComponentType.LIBRARY,
            bom_ref=f"pypi-{pin.name}",
            purl=PackageURL("pypi", None, pin.name, pin.version),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in pin.hashes],
            licenses=_licenses(pin.name, pin.version),
        )
        for pin in pins()
    }
    bom.components.update(packages.values())
    for pin in pins():
        for user in pin.required_by:
            bom.register_dependency(packages.get(user, product), [packages[pin.name]])


def _licenses(name: str, number: str) -> list[License]:
    """What the installed package says of its licence: an expression, a short text, or classifiers."""
    try:
        said = metadata(name).json
    except PackageNotFoundError:
        return []
    classifiers = [each.rpartition(" :: ")[2] for each in said.get("classifier", ()) if each.startswith("License :: ")]
    texts = [str(said.get("license_expression", "")), str(said.get("license", "")), *classifiers]
    text = next((each for each in texts if each and "\n" not in each), None)
    return [LicenseFactory().make_from_string(text)] if text and said["version"] == number else []


def _add_image(bom: Bom, product: Component, root: Path) -> Component:
    """Add the product and the Debian packages; returns the image."""
    controls = [dict(_FIELD.findall(file.read_text())) for file in sorted(root.joinpath(*_STATUS).iterdir())]
    packages = {fields["Package"]: _debian_package(fields) for fields in controls}
    bom.components.update([product, *packages.values()])
    for fields in controls:
        needed = _requirements(fields) & {*packages}
        bom.register_dependency(packages[fields["Package"]], [packages[name] for name in sorted(needed)])
    image = Component(
        name=PRODUCT,
        version=version(),
        type=ComponentType.CONTAINER,
        bom_ref="image",
        purl=PackageURL("oci", None, PRODUCT, None, {"tag": version()}),
    )
    bom.register_dependency(image, [product, *packages.values()])
    return image


def _debian_package(fields: dict[str, str]) -> Component:
    name, number = fields["Package"], fields["Version"]
    return Component(
        name=name,
        version=number,
        type=ComponentType.LIBRARY,
        bom_ref=f"deb-{name}",
        purl=PackageURL("deb", "debian", name, number, {"arch": fields["Architecture"]}),
        supplier=OrganizationalEntity(name="Debian"),
    )


def _requirements(fields: dict[str, str]) -> set[str]:
    """The names of packages that a package depends on, with all alternatives."""
    text = f"{fields.get('Pre-Depends', '')},{fields.get('Depends', '')}"
    return {re.split(r"[\s:(]", each.strip())[0] for each in re.split(r"[,|]", text)}


if __name__ == "__main__":
    sys.stdout.write(bill_of_materials(Path(sys.argv[1])))
