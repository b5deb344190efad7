"""One file for each finding of reviews of public documents: what is right passes, and what was missed is found.

`expected/` holds what the command line prints of each file, and its exit code. What the cluster has is in `cluster/` under
the same name, and the object before an update in `old/`. After an intended change, `python -m
tests.configuration.test_corpus` writes the expected files anew.
"""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from webhook.cli import main

CORPUS = Path(__file__).parent / "corpus"
FILES = sorted(CORPUS.glob("*.yaml"))


def printed(file):
    """What a review of one file prints, and its exit code."""
    arguments = ["review", file.name]
    if (CORPUS / "cluster" / file.name).exists():
        arguments += ["--cluster", f"cluster/{file.name}"]
    if (CORPUS / "old" / file.name).exists():
        arguments += ["--operation", "UPDATE", "--old", f"old/{file.name}"]
    done = CliRunner().invoke(main, arguments, prog_name="gpu-admission")
    return f"{done.stdout}{done.stderr}exit code {done.exit_code}\n"


def expected(file):
    return CORPUS / "expected" / f"{file.stem}.txt"


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_document_is_answered_as_written(file, monkeypatch):
    monkeypatch.chdir(CORPUS)
    assert printed(file) == expected(file).read_text()


def test_nothing_is_expected_of_files_that_are_gone():
    names = {file.stem for file in FILES}
    assert {path.stem for folder in ("cluster", "old", "expected") for path in (CORPUS / folder).iterdir()} <= names


if __name__ == "__main__":
    os.chdir(CORPUS)
    for each in FILES:
        expected(each).write_text(printed(each))
