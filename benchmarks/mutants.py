"""Mutation testing: seeded small mistakes in a package, each tried against the tests that call it.

    python -m benchmarks.mutants policies/fleet tests/fleet --count 300 --seed 1

A first run notes the functions that each test calls, and the seconds that it takes. Each mutant is then imported in a
new process, in place of its module, and meets those tests, the quickest files first. A mutant with which they pass has
survived; it is printed with its line. No file is changed. Tests that start programs do not see mutants in them.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib
import multiprocessing
import os
import random
import resource
import sys
import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from importlib.machinery import PathFinder, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from multiprocessing.connection import Connection
    from types import CodeType, FrameType, ModuleType

ROOT = Path(__file__).parents[1]
OPTIONS = ("-x", "-q", "-n", "0", "-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:warnings")
MOST_BYTES = 4 << 30
"""Of memory that a mutant may take, lest one that loops takes all."""
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
Function = tuple[str, int]
"""A function, by its file and its first line."""


class Mutation(NamedTuple):
    """A small mistake in a module."""

    line: int
    what: str
    apply: Callable[[], None]
    """Changes the tree of the module."""
    function: int = 0
    """The first line of the function that it is in."""


def mutations(tree: ast.Module) -> Iterator[Mutation]:
    """Every mutation of a module, without docstrings, imports and annotations."""
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            first = min(node.lineno for node in (function, *function.decorator_list))
            for index, statement in enumerate(function.body):
                found = _of_statement(function.body, index)
                yield from (mutation._replace(function=first) for mutation in found)
                if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                    for node in ast.walk(statement):
                        yield from (mutation._replace(function=first) for mutation in _of_node(node))


def _of_statement(body: list[ast.stmt], index: int) -> Iterator[Mutation]:
    statement = body[index]
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return
    if isinstance(statement, ast.Expr | ast.If | ast.For | ast.AugAssign):
        yield Mutation(statement.lineno, "statement dropped", lambda: body.__setitem__(index, ast.Pass()))


def _of_node(node: ast.AST) -> Iterator[Mutation]:
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            other = COMPARISONS[type(operator)]
            yield Mutation(
                node.lineno, f"{type(operator).__name__} to {other.__name__}", lambda: _set(node, "ops", [other()])
            )
        case ast.BoolOp(op=operator):
            flipped = ast.Or() if isinstance(operator, ast.And) else ast.And()
            yield Mutation(node.lineno, f"{type(operator).__name__} flipped", lambda: _set(node, "op", flipped))
        case ast.UnaryOp(op=ast.Not()):
            yield Mutation(
                node.lineno, "not doubled", lambda: _set(node, "operand", ast.UnaryOp(ast.Not(), node.operand))
            )
        case ast.Constant(value=bool(value)):
            yield Mutation(node.lineno, f"{value} negated", lambda: _set(node, "value", not value))
        case ast.Constant(value=int(value)):
            yield Mutation(node.lineno, f"{value} plus 1", lambda: _set(node, "value", value + 1))
        case ast.If() | ast.IfExp():
            yield Mutation(
                node.lineno, "condition negated", lambda: _set(node, "test", ast.UnaryOp(ast.Not(), node.test))
            )
        case ast.Return(value=ast.expr()):
            yield Mutation(node.lineno, "returns None", lambda: _set(node, "value", ast.Constant(None)))
        case ast.Call(args=[first, second, *rest]):
            yield Mutation(node.lineno, "arguments swapped", lambda: _set(node, "args", [second, first, *rest]))


def _set(node: ast.AST, field: str, value: object) -> None:
    setattr(node, field, value)


def main() -> None:
    """Try mutants and print the survivors and the score."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("package")
    arguments.add_argument("tests", nargs="+")
    arguments.add_argument("--count", type=int, default=300)
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()
    places = [
        (file, number)
        for file in sorted((ROOT / options.package).rglob("*.py"))
        for number, _ in enumerate(mutations(ast.parse(file.read_text())))
    ]
    chosen = random.Random(options.seed).sample(places, min(options.count, len(places)))  # noqa: S311 - a seed, no secret
    calls = calls_of(options.tests)
    survived = 0
    for file, number in chosen:
        tree = ast.parse(file.read_text())
        mutation = list(mutations(tree))[number]
        mutation.apply()
        code = compile(ast.fix_missing_locations(tree), str(file), "exec")
        tests = calls.callers((str(file), mutation.function))
        if not tests or passes(file, code, tests, calls):
            survived += 1
            note = "" if tests else " (no test calls it)"
            print(f"survived: {file.relative_to(ROOT)}:{mutation.line}: {mutation.what}{note}", flush=True)
    print(f"{len(chosen)} of {len(places)} mutants tried, {len(chosen) - survived} killed, {survived} survived")


@dataclass
class Calls:
    """A plugin of pytest that notes what the tests call."""

    on_import: set[Function] = field(default_factory=set)
    by_test: dict[str, set[Function]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    """How long the tests of each file take."""
    modules: list[str] = field(default_factory=list)
    """The modules of others that the tests import."""

    def callers(self, function: Function) -> set[str]:
        """The tests that call a function; all tests if it is called while modules are imported."""
        if function in self.on_import:
            return set(self.by_test)
        return {test for test, functions in self.by_test.items() if function in functions}

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Generator[None, object, object]:
        """Note what is called while the tests are imported."""
        with note_functions(self.on_import):
            return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        """Note what a test calls, and how long it takes."""
        begin = time.monotonic()
        with note_functions(self.by_test.setdefault(item.nodeid, set())):
            result = yield
        self.seconds[file_of(item.nodeid)] += time.monotonic() - begin
        return result


@dataclass
class Chosen:
    """A plugin of pytest that runs some tests, those of quick files first."""

    tests: set[str]
    seconds: dict[str, float]

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Leave the chosen tests."""
        chosen = [item for item in items if item.nodeid in self.tests]
        items[:] = sorted(chosen, key=lambda item: self.seconds[file_of(item.nodeid)])


class Mutants(PathFinder):
    """Imports a mutant in place of one module."""

    def __init__(self, file: Path, code: CodeType) -> None:
        self._file, self._code = str(file), code

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> Any:  # type: ignore[override]  # typeshed has a class method
        """The name by which a module is imported."""
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin != self._file:
            return None
        spec.loader = MutantLoader(fullname, self._file, self._code)
        return spec


class MutantLoader(SourceFileLoader):
    """Loads a mutant, which is compiled already."""

    def __init__(self, fullname: str, file: str, code: CodeType) -> None:
        super().__init__(fullname, file)
        self._code = code

    def get_code(self, fullname: str) -> CodeType:
        """The mutant."""
        return self._code


@contextlib.contextmanager
def note_functions(functions: set[Function]) -> Iterator[None]:
    """Note the functions of the project that are called meanwhile, in any thread."""
    codes: dict[int, CodeType] = {}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and id(frame.f_code) not in codes:
            codes[id(frame.f_code)] = frame.f_code

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
        functions |= {
            (code.co_filename, code.co_firstlineno) for code in codes.values() if code.co_filename.startswith(str(ROOT))
        }


def file_of(test: str) -> str:
    """The file of a test, by the name that pytest gives the test."""
    return test.partition("::")[0]


def calls_of(tests: list[str]) -> Calls:
    """The functions that each test calls.

    The modules of others that tests import are then imported here, so that mutants need not import them.
    """
    receiving, sending = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_note_calls, args=(tests, sending))
    process.start()
    sending.close()
    try:
        calls: Calls = receiving.recv()
    except EOFError:
        sys.exit("the tests fail without a mutant")
    process.join()
    for name in calls.modules:
        with contextlib.suppress(Exception):  # a module that imports only after others is left to the mutants
            importlib.import_module(name)
    return calls


def _note_calls(tests: list[str], sending: Connection) -> None:
    _be_silent()
    calls = Calls()
    if pytest.main([*OPTIONS, *tests], plugins=[calls]) == 0:
        files = {name: str(getattr(module, "__file__", None) or "") for name, module in sys.modules.items()}
        calls.modules = [name for name, file in files.items() if "site-packages" in file and "pytest" not in name]
        sending.send(calls)


def passes(file: Path, code: CodeType, tests: set[str], calls: Calls) -> bool:
    """True if tests pass with a mutant in place of a module; tests that hang do not."""
    process = multiprocessing.get_context("fork").Process(target=_run, args=(file, code, tests, calls))
    process.start()
    process.join(60 + 5 * sum(calls.seconds[name] for name in {file_of(test) for test in tests}))
    process.kill()
    process.join()
    return process.exitcode == 0


def _run(file: Path, code: CodeType, tests: set[str], calls: Calls) -> None:
    _be_silent()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    sys.meta_path.insert(0, Mutants(file, code))
    os._exit(pytest.main([*OPTIONS, *{file_of(test) for test in tests}], plugins=[Chosen(tests, calls.seconds)]))


def _be_silent() -> None:
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)


if __name__ == "__main__":
    main()
