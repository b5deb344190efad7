"""The version of the project, its notes in the changelog, and what requirements.lock pins."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
PRODUCT = "gpu-admission"
_UNRELEASED = "Unreleased"
_HASH = re.compile(r"--hash=(\w+):([0-9a-f]+)")
_USER = re.compile(r"^ +# +(?:via )?(?!via$)([a-z][\w.-]*)(?: \(pyproject\.toml\))?$", re.MULTILINE)
"""A comment that names a package whose requirement this is."""


class NoNotesError(Exception):
    """The changelog says nothing about a version."""


@dataclass(frozen=True, slots=True)
class Pin:
    """One package of requirements.lock."""

    name: str
    version: str
    hashes: tuple[str, ...]
    """The SHA-256 of each of its files, in hexadecimal."""
    required_by: tuple[str, ...]
    """The names of the packages that require it; ours among them."""


def version() -> str:
    """The version in pyproject.toml."""
    project: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return project


def release_notes(number: str) -> str:
    """The section of the changelog about a version; the unreleased one if the version has none yet.

    Raises:
        NoNotesError: There is neither.
    """
    sections = re.split(r"^## \[(.+?)\].*$", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    by_version = dict(zip(sections[1::2], sections[2::2], strict=True))
    notes = by_version.get(number) or by_version.get(_UNRELEASED, "")
    if not notes.strip():
        raise NoNotesError(f"CHANGELOG.md has no section [{number}] and none [{_UNRELEASED}] with text")
    return f"# gpu-admission {number}\n\n{notes.strip()}\n"


def pins() -> list[Pin]:
    """The packages of requirements.lock."""
    found = []
    # A package begins in the first column; its hashes and comments are indented.
    for block in re.split(r"^(?=[a-zA-Z0-9])", (ROOT / "requirements.lock").read_text(), flags=re.MULTILINE):
        if not block.strip():
            continue
        requirement = Requirement(block.partition("\\")[0])
        (specifier,) = requirement.specifier
        hashes = tuple(digest for _, digest in _HASH.findall(block))
        found.append(Pin(requirement.name, specifier.version, hashes, tuple(_USER.findall(block))))
    return found
