"""The lint for modules that are found by their names."""

from textwrap import indent

import pytest

from lints.imports_by_name import imports_by_name, main


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("import importlib; return importlib.import_module('x')", ["import_module"]),
        ("from importlib import import_module as load; return load('x')", ["importlib.import_module"]),
        ("from importlib import util; return util.find_spec('x')", ["find_spec"]),
        ("from importlib.util import find_spec", ["importlib.util.find_spec"]),
        ("import pkgutil as p; return p.resolve_name('x')", ["resolve_name"]),
        ("from pkgutil import resolve_name", ["pkgutil.resolve_name"]),
        ("return __import__('x')", ["__import__"]),
        ("import builtins; return builtins.__import__('x')", ["__import__"]),
        ("import sys; sys.modules['x'] = None", ["sys.modules"]),
        ("import sys as s; return s.modules", ["sys.modules"]),
        ("from sys import modules as loaded", ["sys.modules"]),
    ],
)
def test_import_by_name_in_a_function_is_found(line, found):
    source = "def load():\n" + indent(line, "    ")
    assert list(imports_by_name(source)) == [(2, what) for what in found]


@pytest.mark.parametrize(
    "line",
    [
        "from policies.rules.checks import Rule",
        "import importlib.metadata; importlib.metadata.distribution('x')",
        "import sys; sys.exit(1)",
        "graph.modules",
        "'import_module'",
    ],
)
def test_import_that_mypy_sees_is_accepted(line):
    assert list(imports_by_name(f"def load():\n    {line}")) == []


def test_import_by_name_in_what_is_shipped_is_refused(monkeypatch, tmp_path, capsys):
    (tmp_path / "webhook").mkdir()
    (tmp_path / "webhook" / "plain.py").write_text("def load():\n    from webhook import lazy\n")
    (tmp_path / "webhook" / "lazy.py").write_text("def load():\n    return __import__('x')\n")
    monkeypatch.setattr("lints.imports_by_name.ROOT", tmp_path)
    assert main([]) == 1
    assert capsys.readouterr().out == (
        "webhook/lazy.py:2: import the module where it is used, `from x import y`, instead of __import__\n"
    )
    (tmp_path / "webhook" / "lazy.py").unlink()
    assert main([]) == 0
