"""Each subject lists the rules that its files declare, and only the list of all rules imports all subjects."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

import policies
from policies import access, claims, configuration, conversion, placement, quota
from policies.admission import all_rules

ROOT = Path(policies.__file__).parent
FOLDERS = {
    access: ("access",),
    claims: ("claims",),
    configuration: ("configuration",),
    conversion: ("conversion",),
    placement: ("placement", "fleet"),
    quota: ("quota",),
    all_rules: ("admission", "rules"),
}
"""The folders that declare the rules of each list."""


def declared(folder):
    """Ids and names of the decorated functions in the files of a folder."""
    for file in sorted((ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
                if isinstance(decorator, ast.Call) and getattr(decorator.func, "attr", "") == "rule":
                    yield ast.literal_eval(decorator.args[0]), node.name


@pytest.mark.parametrize("subject", FOLDERS, ids=lambda subject: subject.__name__)
def test_subject_lists_what_its_files_declare(subject):
    listed = [(check.rule.id, check.function.__name__) for check in subject.checks()]
    assert sorted(listed) == sorted(each for folder in FOLDERS[subject] for each in declared(folder))


def test_no_other_folder_declares_rules():
    known = {folder for folders in FOLDERS.values() for folder in folders}
    others = [each.name for each in ROOT.iterdir() if each.is_dir() and each.name not in known]
    assert [rule for folder in others for rule in declared(folder)] == []


def test_decision_function_imports_subjects_late():
    code = "import json, sys; from policies.admission import review; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"policies.configuration", "policies.conversion.convert", "policies.nvidia.predicates"} & set(
        json.loads(done.stdout)
    )
