"""The sources of the site: the pages of the repository, in the places that their links expect.

What differs from the repository: docs/README.md is the index, with its lists as navigation; links to folders lead to their README.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


ROOT = Path(__file__).parents[1]
_OTHER_PAGES = (
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "README.md",
    "SCOPE.md",
    "SECURITY.md",
    "SUPPORT.md",
    "benchmarks/README.md",
)
_LINK = re.compile(r"(\]\()([^)#\s]+)((?:#[^)\s]*)?\))")
_SECTION = re.compile(r"^## (.+)\n", re.MULTILINE)
_ENTRY = re.compile(r"^- \[(.+?)\]\((\S+?)\.md\)", re.MULTILINE)


def write_sources(folder: Path) -> None:
    """Write the sources into an empty folder."""
    for path in _pages():
        _write(folder / path.relative_to(ROOT), _with_links(path.read_text(), path, folder))
    for name in ("examples", "docs/designs", "docs/rules"):
        _append_navigation(folder / name)
    _write(folder / "index.md", _index((ROOT / "docs" / "README.md").read_text()))
    (folder / "docs" / "README.md").unlink()


def _append_navigation(folder: Path) -> None:
    """Add the pages below a README to the navigation, in the order of its links, then the others."""
    readme = folder / "README.md"
    pages = [path.relative_to(folder).with_suffix("").as_posix() for path in sorted(folder.rglob("*.md"))]
    pages.remove("README")
    linked = {name: place for place, name in enumerate(re.findall(r"\]\(([^)#]+)\.md\)", readme.read_text()))}
    pages.sort(key=lambda name: linked.get(name, len(linked)))
    readme.write_text(f"{readme.read_text()}\n{_toctree('', pages)}")


def _pages() -> Iterator[Path]:
    yield from (ROOT / name for name in _OTHER_PAGES)
    for folder in ("docs", "examples", "deploy"):
        yield from sorted((ROOT / folder).rglob("*.md"))


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _with_links(text: str, page: Path, folder: Path) -> str:
    """A page whose links to folders lead to their README, and whose links to files lead to a copy."""

    def replacement(found: re.Match[str]) -> str:
        target = (page.parent / found[2]).resolve()
        if found[2].startswith(("http:", "https:", "mailto:")) or not target.exists():
            return found[0]
        if target == ROOT / "docs" / "README.md":
            return f"{found[1]}{_relative(ROOT / 'index.md', page)}{found[3]}"
        if target.is_dir():
            readme = target / "README.md"
            # A folder of manifests has no page: its objects are those of a cluster of examples.
            target = readme if readme.exists() else ROOT / "examples" / "README.md"
            return f"{found[1]}{_relative(target, page)}{found[3]}"
        if target.suffix != ".md" and target.is_relative_to(ROOT):
            copy = folder / target.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(target, copy)
        return found[0]

    return _LINK.sub(replacement, text)


def _relative(target: Path, page: Path) -> str:
    up = len(page.parent.relative_to(ROOT).parts)
    return f"{'../' * up}{target.relative_to(ROOT).as_posix()}"


def _index(text: str) -> str:
    """docs/README.md as the first page; its lists are the navigation too."""
    linked = re.sub(r"\]\((?!http)([^)]+)\)", r"](docs/\1)", text)
    parts = _SECTION.split(text)
    sections = zip(parts[1::2], map(_ENTRY.findall, parts[2::2]), strict=True)
    trees = [_toctree(title, [f"docs/{name}" for _, name in entries]) for title, entries in sections if entries]
    more = [name.removesuffix(".md") for name in _OTHER_PAGES]
    return f"{linked}\n{''.join(trees)}{_toctree('Project', [*more, 'examples/README', 'deploy/README'])}"


def _toctree(caption: str, pages: list[str]) -> str:
    options = ":hidden:\n" + (f":caption: {caption}\n" if caption else "")
    return f"```{{toctree}}\n{options}\n" + "\n".join(pages) + "\n```\n\n"
