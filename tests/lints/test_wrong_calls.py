"""mypy checks the calls of functions that are imported late: ten wrong ones are planted, and each is reported."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CONCERNS, COVERAGE = "policies/admission/concerns.py", "policies/admission/coverage.py"
COMMANDS = "webhook/cli/commands"

WRONG_CALLS = [
    (CONCERNS, "conversion(request, view, own)", "conversion(request, view)"),
    (CONCERNS, "quota(request, view, own)", "quota(request, own, view)"),
    (CONCERNS, "_access(request, view, own)", "_access(request, view, own).verdicts"),
    (CONCERNS, "namespaces(request, view, settings)", "namespaces(view, request, settings)"),
    (COVERAGE, "is_configuration(request, view, settings)", "is_configuration(request, settings)"),
    (f"{COMMANDS}/reports.py", "report_usage(source)", "report_usage()"),
    (f"{COMMANDS}/review.py", "review_files(given, circumstances,", "review_files(circumstances, given,"),
    (f"{COMMANDS}/installation.py", "exit_code(found.checks,", "exit_code(found.check,"),
    (f"{COMMANDS}/explain.py", "render_analyses(analyses)", "render_analyses()"),
    ("webhook/cli/review/file_reviews.py", "show(review, options)", "show(options, review)"),
]
"""A file, a call in it, and the same call with an argument missing, two swapped, or an attribute that does not exist."""


@pytest.mark.timeout(600)
def test_wrong_calls_of_late_imports_are_reported(tmp_path):
    texts = {file: (ROOT / file).read_text() for file, _, _ in WRONG_CALLS}
    planted = set()
    for file, right, wrong in WRONG_CALLS:
        before, call, after = texts[file].rpartition(right)
        assert call, f"{file} has no call {right}: plant the wrong call elsewhere"
        texts[file] = before + wrong + after
        planted.add(f"{file}:{before.count(chr(10)) + 1}")
    shadows = []
    for number, (file, text) in enumerate(texts.items()):
        # mypy takes a file of the same size for the one that it knows.
        (tmp_path / f"{number}.py").write_text(f"{text}# with wrong calls\n")
        shadows += ["--shadow-file", file, str(tmp_path / f"{number}.py")]
    # What mypy knows of the other files is read from a copy: the run of `make lint` stays as it is.
    if (ROOT / ".mypy_cache").is_dir():
        shutil.copytree(ROOT / ".mypy_cache", tmp_path / "cache")
    command = [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), "--no-pretty", *shadows]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert set(re.findall(r"^(\S+:\d+): error: ", done.stdout, re.MULTILINE)) == planted, done.stdout + done.stderr
