"""Versions are compared in their tables only: `python -m lints.version_comparisons [FOLDER...]`.

A version in the middle of a rule says neither which feature it stands for nor what the cluster shows of it. Ask
`Feature` of `policies.kubernetes.versions` or `NVIDIAFeature` of `policies.nvidia.releases`.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


ROOT = Path(__file__).parents[1]
CHECKED = ("policies", "webhook", "certs")
EXEMPT = (
    "policies/kubernetes/versions.py",
    "policies/nvidia/releases.py",
    "policies/configuration/cluster_policy/runtime.py",  # versions of containerd and CRI-O
)
READS = frozenset({"server_version", "kubelet_version", "operator_version", "driver_version", "parse_version"})
_ORDER = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_RELEASE = re.compile(r"v?\d+\.\d+(\.\d+)?")
_MINORS = range(20, 100)
_YEARS, _MONTHS = range(22, 40), range(1, 13)


def version_comparisons(source: str) -> Iterator[tuple[int, str]]:
    """Lines of a Python text and the versions there that are written out, or read and compared."""
    tree = ast.parse(source)
    assigned = [pair for node in ast.walk(tree) if isinstance(node, ast.Assign) for pair in _pairs(node)]
    named = {target.id for target, value in assigned if isinstance(target, ast.Name) and _reads_version(value)}
    for node in ast.walk(tree):
        match node:
            case ast.Tuple(elts=[ast.Constant(value=int(major)), ast.Constant(value=int(minor)), *_]) if (
                major == 1 and minor in _MINORS
            ) or (major in _YEARS and minor in _MONTHS):
                yield node.lineno, ast.unparse(node)
            case ast.Compare(left=left, ops=ops, comparators=others) if any(isinstance(each, _ORDER) for each in ops):
                if any(_is_version(each, named) for each in (left, *others)):
                    yield node.lineno, ast.unparse(node)


def _pairs(node: ast.Assign) -> Iterator[tuple[ast.expr, ast.expr]]:
    """The targets of an assignment, each with its value."""
    for target in node.targets:
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            yield from zip(target.elts, node.value.elts, strict=False)
        else:
            yield target, node.value


def _reads_version(node: ast.expr) -> bool:
    match node:
        case ast.Call(func=called):
            return _reads_version(called)
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in READS
        case _:
            return False


def _is_version(node: ast.expr, named: set[str]) -> bool:
    match node:
        case ast.Name(id=name) if name in named:
            return True
        case ast.Constant(value=str(text)):
            return _RELEASE.fullmatch(text) is not None
        case ast.Subscript(value=value):
            return _is_version(value, named)
        case _:
            return _reads_version(node)


def main(names: list[str]) -> int:
    """Print the comparisons in the given folders, else in all that is shipped; 1 if there are any."""
    files = [file for name in names or CHECKED for file in sorted((ROOT / name).rglob("*.py"))]
    found = [
        f"{place}:{line}: ask the table of versions for the feature, instead of {what}"
        for place, file in ((file.relative_to(ROOT).as_posix(), file) for file in files)
        if place not in EXEMPT
        for line, what in version_comparisons(file.read_text(encoding="utf-8"))
    ]
    print(*found, sep="\n", end="\n" if found else "")
    return min(len(found), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
