"""The JSON schema and the page of the format. `python tests/suites/test_suite_schema.py` writes the schema."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

from testbed import libyaml
from webhook.cli.suites.format import Case, Expectation, ExpectedFinding, ExpectedFit, Suite, User

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docs" / "suite.schema.json"
SUITES = sorted(ROOT.glob("examples/*/suite.yaml"))


def schema():
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema"}
    return json.dumps({**head, **Suite.model_json_schema(by_alias=True)}, indent=2) + "\n"


def test_schema_is_that_of_the_format():
    assert FILE.read_text() == schema()


@pytest.mark.parametrize("file", SUITES, ids=lambda file: file.parent.name)
def test_suites_of_examples_have_the_schema(file):
    jsonschema.validate(libyaml.load(file.read_text()), json.loads(FILE.read_text()))


@pytest.mark.parametrize("model", [Suite, Case, Expectation, ExpectedFinding, ExpectedFit, User])
def test_page_explains_each_field(model):
    page = (ROOT / "docs" / "test.md").read_text()
    for field in model.model_json_schema(by_alias=True)["properties"]:
        assert re.search(rf"[`.]{field}\b|\b{field}:", page), field


if __name__ == "__main__":
    FILE.write_text(schema())
