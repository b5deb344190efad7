"""One file for each known misconfiguration: the command line flags it, by the expected rule at the expected line.

A file begins with `# expect: GA132 at 9` (line 9 of the file), once for each finding that its row is about. What the
cluster has is in `cluster/` under the same name; the object before an update in `old/`; `# operation: DELETE` says what
is done. Other findings may be there as well.
"""

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from policies.admission.all_rules import rule_book
from webhook.cli import main

CATALOGUE = Path(__file__).parent / "catalogue"
FILES = sorted(CATALOGUE.glob("*.yaml"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_misconfiguration_is_flagged_at_its_line(file):
    text = file.read_text()
    expected = re.findall(r"^# expect: (GA[12]\d\d) at (\d+)$", text, re.MULTILINE)
    assert expected
    operation = re.search(r"^# operation: (\w+)$", text, re.MULTILINE)
    arguments = ["review", "-o", "json", str(file)]
    if operation:
        arguments += ["--operation", operation.group(1)]
    for option, folder in (("--cluster", "cluster"), ("--old", "old")):
        if (CATALOGUE / folder / file.name).exists():
            arguments += [option, str(CATALOGUE / folder / file.name)]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code in (0, 1), done.output
    found = {
        (finding["rule"], str(finding["line"])) for result in json.loads(done.stdout) for finding in result["findings"]
    }
    assert set(expected) <= found
    row = re.match(r"[A-LS]-\d\d", file.stem).group()
    # Rows of section S are mistakes of published guides; each is some other row as well.
    assert row.startswith("S") or any(row in rule_book().get(rule).rows for rule, _ in expected)
