"""No false alarm: valid, realistic configurations give neither a refusal nor a warning."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from webhook.cli import main

VALID = Path(__file__).parent / "valid"
FILES = sorted(path for path in VALID.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_valid_configuration_gives_no_finding(file):
    cluster = VALID / "cluster" / file.name
    facts = ["--cluster", str(cluster)] if cluster.exists() else []
    done = CliRunner().invoke(main, ["review", "-o", "json", *facts, str(file)])
    assert done.exit_code == 0, done.output
    assert [finding for result in json.loads(done.stdout) for finding in result["findings"]] == []
