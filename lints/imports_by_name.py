"""No imports by name in what is shipped: `python -m lints.imports_by_name [FOLDER...]`.

A module that a text names is hidden from mypy, which would check the calls of its functions, and from import-linter, which
would see a circle. What must load late is imported inside the function that uses it, with `from x import y`.

ruff's TID251 bans names of modules in the same way, but no builtin such as `__import__`.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


ROOT = Path(__file__).parents[1]
CHECKED = ("policies", "webhook", "certs")
FORBIDDEN = frozenset({"__import__", "find_spec", "import_module", "resolve_name"})


def imports_by_name(source: str) -> Iterator[tuple[int, str]]:
    """Lines of a Python text and what they use to find modules by name."""
    tree = ast.parse(source)
    imports = [each for node in ast.walk(tree) if isinstance(node, ast.Import) for each in node.names]
    sys_names = {each.asname or each.name for each in imports if each.name == "sys"}
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) if name in FORBIDDEN:
                yield node.lineno, name
            case ast.ImportFrom(module=module, names=aliases):
                for each in aliases:
                    if each.name in FORBIDDEN or (module, each.name) == ("sys", "modules"):
                        yield node.lineno, f"{module}.{each.name}"
            case ast.Attribute(value=ast.Name(id=name), attr="modules") if name in sys_names:
                yield node.lineno, "sys.modules"


def main(names: list[str]) -> int:
    """Print the imports by name in the given folders, else in all that is shipped; 1 if there are any."""
    files = [file for name in names or CHECKED for file in sorted((ROOT / name).rglob("*.py"))]
    found = [
        f"{place}:{line}: import the module where it is used, `from x import y`, instead of {what}"
        for place, file in ((file.relative_to(ROOT).as_posix(), file) for file in files)
        for line, what in imports_by_name(file.read_text(encoding="utf-8"))
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
