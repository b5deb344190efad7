"""No false alarm: valid, realistic configurations give neither a refusal nor a warning.

A file of `valid/` holds what somebody applies together; what else the cluster has is in `cluster/` under the same name.
"""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from webhook.cli import main

VALID = Path(__file__).parent / "valid"
FILES = sorted(path for path in VALID.glob("*.yaml"))

each_file = pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)


def findings(file, *arguments):
    cluster = VALID / "cluster" / file.name
    facts = ["--cluster", str(cluster)] if cluster.exists() else []
    done = CliRunner().invoke(main, ["review", "-o", "json", *facts, *arguments, str(file)])
    assert done.exit_code == 0, done.output
    return [finding for result in json.loads(done.stdout) for finding in result["findings"]]


def test_corpus_is_large():
    assert len(FILES) >= 40


@each_file
def test_valid_configuration_gives_no_finding(file):
    assert findings(file) == []


@each_file
def test_valid_configuration_applied_again_gives_no_finding(file):
    assert findings(file, "--operation", "UPDATE", "--old", str(file), "--cluster", str(file)) == []


@each_file
def test_valid_configuration_beside_what_it_refers_to_gives_no_finding(file):
    assert findings(file, "--cluster", str(file)) == []
