"""The import-linter contract that finds circles."""

import subprocess
import sys

import pytest

from lints.acyclic_modules import import_circles

CONFIGURATION = """
[tool.importlinter]
root_package = "room"
contract_types = ["acyclic_modules: lints.acyclic_modules.AcyclicModulesContract"]

[[tool.importlinter.contracts]]
name = "no circles"
type = "acyclic_modules"
"""
PLAIN = "import room.table"
FOR_TYPES = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from room.table import Table"
IN_A_FUNCTION = "def seat():\n    from room.table import Table\n    return Table"
UP = "from room.chair import Chair"


@pytest.fixture
def lint(tmp_path):
    """Runs import-linter on a package of two modules; returns its exit code and what it printed, without line breaks."""

    def lint(chair, table):
        room = tmp_path / "room"
        room.mkdir()
        for name, text in (("__init__", ""), ("chair", chair), ("table", table)):
            (room / f"{name}.py").write_text(text)
        (tmp_path / "pyproject.toml").write_text(CONFIGURATION)
        code = "from importlinter.cli import lint_imports_command; lint_imports_command()"
        done = subprocess.run(
            [sys.executable, "-c", code, "--no-cache"], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        return done.returncode, " ".join(done.stdout.split())

    return lint


@pytest.mark.parametrize("down", [PLAIN, FOR_TYPES, IN_A_FUNCTION], ids=["plain", "for types", "in a function"])
def test_two_modules_that_import_each_other_are_refused(lint, down):
    code, printed = lint(down, UP)
    assert code == 1
    assert "room.chair -> room.table -> room.chair" in printed


def test_modules_that_import_in_one_direction_are_accepted(lint):
    code, printed = lint("", UP)
    assert (code, "no circles KEPT" in printed) == (0, True)


@pytest.mark.parametrize(
    ("imports", "expected"),
    [
        ({"a": {"b"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}, [["a", "b", "c", "a"]]),
        ({"a": {"b"}, "b": {"a"}, "c": {"d"}, "d": {"c"}}, [["a", "b", "a"], ["c", "d", "c"]]),
        ({"a": {"b", "c"}, "b": {"a"}, "c": {"a"}}, [["a", "b", "a"], ["a", "c", "a"]]),
    ],
    ids=["none", "one of three", "two apart", "two through one module"],
)
def test_each_circle_is_found(imports, expected):
    assert sorted(circle_from_a(each) for each in import_circles(imports)) == expected


def circle_from_a(circle):
    """The same circle, beginning with the first of its modules by name."""
    assert circle[0] == circle[-1]
    start = circle.index(min(circle))
    return [*circle[start:-1], *circle[: start + 1]]
