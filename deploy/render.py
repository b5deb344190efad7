"""Renders deploy/install.yaml: the overlay `default`, in one file, with its comments.

`python deploy/render.py` writes the file, `--check` says whether it is as it should be. The overlay is nothing but
files, one after the other, so this needs no kustomize; for overlays that patch something, use `kubectl kustomize`.
"""

# ruff: noqa: INP001 - a script among manifests, and no package
from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CannotRender", "render"]

_DEPLOY = Path(__file__).resolve().parent
_INSTALL = _DEPLOY / "install.yaml"
_HEAD = (
    "# gpu-admission, as deploy/overlays/default has it; rendered by deploy/render.py. docs/install.md says more.\n"
    "# kubectl apply -f deploy/install.yaml\n"
)
_KUSTOMIZATION = "kustomization.yaml"
_UNDERSTOOD = frozenset({"apiVersion", "kind", "resources"})


class CannotRender(Exception):  # noqa: N818 - the name says what is wrong; "Error" would only say it twice
    """A kustomization does more than to list files. Its text is one plain sentence."""


def render(overlay: Path) -> str:
    """All manifests of a kustomization in one text, in its order.

    Raises:
        CannotRender: It patches, generates or transforms something.
    """
    return _HEAD + "".join(f"---\n{file.read_text().strip()}\n" for file in _files(overlay))


def _files(folder: Path) -> Iterator[Path]:
    kustomization = yaml.safe_load((folder / _KUSTOMIZATION).read_text())
    if more := sorted(kustomization.keys() - _UNDERSTOOD):
        raise CannotRender(
            f"{folder / _KUSTOMIZATION} has {', '.join(more)}; render it with `kubectl kustomize {folder}`."
        )
    for resource in kustomization["resources"]:
        path = (folder / resource).resolve()
        if path.is_dir():
            yield from _files(path)
        else:
            yield path


def main(arguments: list[str]) -> int:
    """Write deploy/install.yaml, or with `--check` compare it."""
    try:
        text = render(_DEPLOY / "overlays" / "default")
    except CannotRender as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if arguments == ["--check"]:
        if _INSTALL.read_text() != text:
            sys.stderr.write("deploy/install.yaml is not what its overlay says; run: python deploy/render.py\n")
            return 1
        return 0
    if arguments:
        sys.stderr.write("usage: python deploy/render.py [--check]\n")
        return 2
    _INSTALL.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
