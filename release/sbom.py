"""The software bill of materials: what the wheel, the plugin and the image contain, as CycloneDX 1.6.

`python -m release.sbom [ROOT]` prints it; with the root of an unpacked image, it has the Debian packages too.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import LicenseExpression
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL

from release.archives import TIME
from release.project import pins, version

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["bill_of_materials"]

_STATUS = ("var", "lib", "dpkg", "status.d")
"""Where the image keeps the control data of its Debian packages."""


def bill_of_materials(root: Path | None = None) -> str:
    """The bill of materials of this version as JSON.

    Args:
        root: The root of an unpacked image, whose Debian packages are added; None for the Python packages alone.
    """
    number = version()
    product = Component(
        name="gpu-admission",
        version=number,
        type=ComponentType.APPLICATION,
        bom_ref="gpu-admission",
        purl=PackageURL("pypi", None, "gpu-admission", number),
        licenses=[LicenseExpression("Apache-2.0")],
    )
    bom = Bom(components=[*_python_packages(), *(_debian_packages(root) if root else ())])
    bom.metadata.component = product
    bom.register_dependency(product, list(bom.components))
    # The present time and a random number would make each build differ.
    bom.serial_number = uuid5(NAMESPACE_URL, f"gpu-admission {number}")
    bom.metadata.timestamp = TIME
    return f"{JsonV1Dot6(bom).output_as_string(indent=2)}\n"


def _python_packages() -> Iterator[Component]:
    for pin in pins():
        yield Component(
            name=pin.name,
            version=pin.version,
            type=ComponentType.LIBRARY,
            bom_ref=f"pypi-{pin.name}",
            purl=PackageURL("pypi", None, pin.name, pin.version),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest) for digest in pin.hashes],
        )


def _debian_packages(root: Path) -> Iterator[Component]:
    for file in sorted(root.joinpath(*_STATUS).iterdir()):
        fields = dict(re.findall(r"^([A-Z][\w-]*): (.*)$", file.read_text(), re.MULTILINE))
        yield Component(
            name=fields["Package"],
            version=fields["Version"],
            type=ComponentType.LIBRARY,
            bom_ref=f"deb-{fields['Package']}",
            purl=PackageURL("deb", "debian", fields["Package"], fields["Version"], {"arch": fields["Architecture"]}),
        )


if __name__ == "__main__":
    sys.stdout.write(bill_of_materials(Path(sys.argv[1]) if sys.argv[1:] else None))
