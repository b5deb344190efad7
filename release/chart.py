"""The archive of the Helm chart, as `helm package` lays it out, without Helm.

`python -m release.chart` writes it into `dist`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

from release.archives import write_tarball
from release.project import ROOT, version

_CHART = ROOT / "deploy" / "chart"
_OWN_IMAGE = ("  repository: gpu-admission\n", '  tag: ""\n', '  digest: ""\n')
"""The lines of values.yaml that name the image."""


def write_chart(dist: Path, image: str = "") -> Path:
    """Write the archive, and return its path.

    Args:
        dist: The folder to write into.
        image: The image that the chart installs by default, `registry/name:tag` or `registry/name@sha256:...`; empty for
            what values.yaml says.

    Raises:
        ValueError: values.yaml does not have the lines that name the image.
    """
    target = dist / f"gpu-admission-{version()}.tgz"
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "gpu-admission"
        shutil.copytree(_CHART, copy)
        if image:
            values = copy / "values.yaml"
            values.write_text(_with_image(values.read_text(), image))
        write_tarball(target, Path(folder))
    return target


def _with_image(values: str, image: str) -> str:
    name, _, digest = image.partition("@")
    repository, separator, tag = name.rpartition(":")
    if not separator or "/" in tag:
        repository, tag = name, ""
    lines = (f"  repository: {repository}\n", f'  tag: "{tag}"\n', f'  digest: "{digest}"\n')
    for line, replacement in zip(_OWN_IMAGE, lines, strict=True):
        if values.count(line) != 1:
            raise ValueError(
                f"deploy/chart/values.yaml has the line {line.strip()!r} {values.count(line)} times, not once"
            )
        values = values.replace(line, replacement)
    return values


if __name__ == "__main__":
    (ROOT / "dist").mkdir(exist_ok=True)
    sys.stdout.write(f"{write_chart(ROOT / 'dist')}\n")
