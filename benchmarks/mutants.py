"""Mutation testing: seeded small mistakes in a package, each tried against the package's tests.

    python -m benchmarks.mutants policies/fleet tests/fleet --count 300 --seed 1

Mutants are made in a copy of the tree. One that the tests pass with has survived; it is printed with its line.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).parents[1]
TREE = ("policies", "webhook", "certs", "testbed", "lints", "tests", "examples", "deploy", "docs", "benchmarks")
COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
Mutation = tuple[int, str, "Callable[[], None]"]
"""A line, what is done there, and what does it to the tree."""


def mutations(tree: ast.Module) -> Iterator[Mutation]:
    """Every mutation of a module, without docstrings, imports and annotations."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            for index, statement in enumerate(function.body):
                yield from _of_statement(function.body, index)
                if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    for node in ast.walk(statement):
                        yield from _of_node(node)


def _of_statement(body: list[ast.stmt], index: int) -> Iterator[Mutation]:
    statement = body[index]
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return
    if isinstance(statement, ast.Expr | ast.If | ast.For | ast.AugAssign):
        yield statement.lineno, "statement dropped", lambda: body.__setitem__(index, ast.Pass())


def _of_node(node: ast.AST) -> Iterator[Mutation]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            other = COMPARISONS[type(operator)]
            yield node.lineno, f"{type(operator).__name__} to {other.__name__}", lambda: _set(node, "ops", [other()])
        case ast.BoolOp(op=operator):
            flipped = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield node.lineno, f"{type(operator).__name__} flipped", lambda: _set(node, "op", flipped)
        case ast.UnaryOp(op=ast.Not()):
            yield node.lineno, "not doubled", lambda: _set(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
        case ast.Constant(value=bool(value)):
            yield node.lineno, f"{value} negated", lambda: _set(node, "value", not value)
        case ast.Constant(value=int(value)):
            yield node.lineno, f"{value} plus 1", lambda: _set(node, "value", value + 1)
        case ast.If() | ast.IfExp():
            yield node.lineno, "condition negated", lambda: _set(node, "test", ast.UnaryOp(ast.Not(), node.test))
        case ast.Return(value=ast.expr()):
            yield node.lineno, "returns None", lambda: _set(node, "value", ast.Constant(None))
        case ast.Call(args=[first, second, *rest]):
            yield node.lineno, "arguments swapped", lambda: _set(node, "args", [second, first, *rest])


def _set(node: ast.AST, field: str, value: object) -> None:
    setattr(node, field, value)


def main() -> None:
    """Try mutants and print the survivors and the score."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("package")
    arguments.add_argument("tests", nargs="+")
    arguments.add_argument("--count", type=int, default=300)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="begin no mutant after so many")
    options = arguments.parse_args()
    places = [
        (file, number)
        for file in sorted((ROOT / options.package).rglob("*.py"))
        for number, _ in enumerate(mutations(ast.parse(file.read_text())))
    ]
    chosen = random.Random(options.seed).sample(places, min(options.count, len(places)))  # noqa: S311 - a seed, no secret
    end, tried, survived = time.monotonic() + options.seconds, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder)
        for name in TREE:
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(ROOT / "pyproject.toml", copy)
        tests = quickest_first(copy, options.tests)
        for file, number in chosen:
            if time.monotonic() > end:
                break
            tree = ast.parse(file.read_text())
            line, what, mutate = list(mutations(tree))[number]
            mutate()
            target = copy / file.relative_to(ROOT)
            target.write_text(ast.unparse(ast.fix_missing_locations(tree)))
            tried += 1
            if passes(copy, tests):
                survived += 1
                print(f"survived: {file.relative_to(ROOT)}:{line}: {what}", flush=True)
            shutil.copy(file, target)
    print(f"{tried} of {len(places)} mutants tried, {tried - survived} killed, {survived} survived")


def quickest_first(copy: Path, tests: list[str]) -> list[str]:
    """The files of tests by the seconds that they take, so that most mutants cost one quick file."""
    report = copy / "durations.xml"
    if not passes(copy, ["-o", "junit_family=xunit1", f"--junit-xml={report}", *tests]):
        sys.exit("the tests fail without a mutant")
    seconds: defaultdict[str, float] = defaultdict(float)
    for case in ET.parse(report).iter("testcase"):  # noqa: S314 - written by the run above
        seconds[case.attrib["file"]] += float(case.attrib["time"])
    return sorted(seconds, key=seconds.__getitem__)


def passes(copy: Path, tests: list[str]) -> bool:
    """Whether the tests pass in a copy of the tree; tests that hang do not."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-n",
        "0",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        *tests,
    ]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command,
            cwd=copy,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=300,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return done.returncode == 0


if __name__ == "__main__":
    main()
