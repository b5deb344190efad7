"""The schemas of all `-o json` outputs. `python tests/cli/test_json_outputs.py` writes them.

`testbed.commands.run_command` validates every JSON output of the tests that use it, and the exit code with it.
"""

from __future__ import annotations

import copy
import json
import os
import re
from functools import cache
from pathlib import Path

import click
import jsonschema
import pytest

from testbed.commands import run_command
from testbed.json_schemas import (
    FOLDER,
    OUTPUTS,
    check_output,
    exit_codes,
    output_schema,
    schema_file,
    schema_text,
    validator,
)
from webhook.cli import main

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
PAGE = ROOT / "docs" / "json-outputs.md"
ENVIRONMENT = {key: value for key, value in os.environ.items() if key != "KUBECONFIG"} | {"HOME": "/nonexistent"}
IN_USE = [f"--cluster={name}" for name in ("cluster", "cluster-in-use", "cluster-with-quota", "cluster-busy")]
RUNS = {
    "audit": IN_USE,
    "cel": ["--edit=cel/edit.cel", "--cluster=cluster", "cel/claim.yaml"],
    "cutover": [*IN_USE, "--cluster=cluster-with-operator", "--cluster=cutover/workloads.yaml"],
    "explain": [
        *IN_USE,
        "explain-deployment",
        "explain-preemption",
        "impossible-wish",
        "refused-selector",
        "single-gpu",
    ],
    "migrate": ["--prove", *IN_USE],
    "plan": [*IN_USE, "--cluster=cluster-with-operator", "plan/mig.yaml", "plan/time-slicing.yaml"],
    "quota": IN_USE[::2],
    "review": [*IN_USE[::2], "single-gpu", "quota-exceeded"],
    "rules": ["GA321"],
    "usage": [*IN_USE, f"--cluster={ROOT}/tests/cli/stuck_pod.yaml"],
}
"""Arguments of commands that print much, in the folder of the examples."""
RARE = {
    "explain": {"WaitRow"},
    "plan": {"FoundPlace", "MemoryEstimate", "PlannedEviction", "Refusal"},
    "quota": {"DayHours", "GrantRoom", "Headroom", "Hours", "KindHours", "LimitRoom", "Problem", "QuotaHours"},
}
"""Types that are not in these documents; tests of the commands print them."""
SAMPLES = {
    "doctor": {
        "format": 1,
        "checks": [{"name": "leader", "status": "ok", "what": "x", "where": "x", "why": "x", "remedy": "x"}],
        "calls": {
            "since": None,
            "webhooks": {
                "claims": {
                    "calls": 1,
                    "refused": 0,
                    "failedClosed": 0,
                    "failedOpen": 0,
                    "excluded": 0,
                    "conditionErrors": 0,
                    "secondsOfHalf": 0.1,
                    "secondsOf99Percent": None,
                }
            },
        },
        "conclusion": "1 ok",
    },
    "preflight": {
        "step": {"verb": "install", "from": None, "to": "1.0.0"},
        "checks": [{"name": "leader", "status": "ok", "what": "x"}],
        "namespaces": {
            "covered": ["team-a"],
            "exempt": [],
            "converting": [],
            "preview": [],
            "quotaEnforced": [],
            "pods": 1,
            "entries": {"claims": {"namespaces": 1, "pods": 1}},
        },
        "conclusion": "x",
    },
}
"""Documents of the commands that need a running cluster; their own tests validate real ones."""


@cache
def document(name):
    """A valid document of a command."""
    if name in SAMPLES:
        return SAMPLES[name]
    done = run_command(name, *RUNS[name], "-o", "json", cwd=EXAMPLES, environment=ENVIRONMENT)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", OUTPUTS)
def test_schema_is_that_of_the_types(name):
    assert schema_file(name).read_text() == schema_text(name)


@pytest.mark.parametrize("name", OUTPUTS)
def test_schema_is_valid_and_names_its_version(name):
    schema = output_schema(name)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$id"] == f"urn:gpu-admission:output:{name}:v1"


def test_every_command_with_json_has_a_schema():
    with_json = {
        name
        for name in main.list_commands(click.Context(main))
        for option in main.get_command(click.Context(main), name).params
        if option.name == "output" and "json" in getattr(option.type, "choices", ())
    }
    assert with_json == OUTPUTS.keys()
    assert {file.name for file in FOLDER.iterdir()} == {schema_file(name).name for name in OUTPUTS}


def records(value, schema, whole):
    """The mappings in a document that have named fields, each with its schema."""
    if "$ref" in schema:
        yield from records(value, whole["$defs"][schema["$ref"].removeprefix("#/$defs/")], whole)
    for each in schema.get("anyOf", ()):
        if jsonschema.Draft202012Validator({**each, "$defs": whole["$defs"]}).is_valid(value):
            yield from records(value, each, whole)
    if isinstance(value, list):
        for item in value:
            yield from records(item, schema.get("items", {}), whole)
    if isinstance(value, dict):
        if "properties" in schema:
            yield value, schema
        for key, item in value.items():
            others = schema.get("additionalProperties", {})
            yield from records(item, schema.get("properties", {}).get(key, others), whole)


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_field_that_is_missing_renamed_or_new_fails(name):
    changed, schema, tried = copy.deepcopy(document(name)), output_schema(name), set()
    validator(name).validate(changed)
    for record, of_record in records(changed, schema, schema):
        for field in [*record]:
            if (of_record["description"], field) in tried:
                continue
            tried.add((of_record["description"], field))
            value = record.pop(field)
            assert validator(name).is_valid(changed) is (field not in of_record["required"]), field
            record[f"{field}X"] = value
            assert not validator(name).is_valid(changed), field
            del record[f"{field}X"]
            record[field] = [[value]]
            assert not validator(name).is_valid(changed) or of_record["properties"][field] == {}, field
            record[field] = value
    validator(name).validate(changed)


@pytest.mark.parametrize("name", OUTPUTS)
def test_documents_cover_the_types(name):
    """Almost every type of an output occurs in the document that is mutated above."""
    schema = output_schema(name)
    seen = {of_record["description"] for _, of_record in records(document(name), schema, schema)}
    missing = {key for key, each in schema["$defs"].items() if each["description"] not in seen}
    assert missing <= RARE.get(name, set())


def test_published_schemas_allow_further_fields():
    for name in OUTPUTS:
        assert '"additionalProperties": false' not in schema_file(name).read_text()


def test_page_lists_every_schema():
    rows = re.findall(r"^\| `gpu-admission (\w+)[^`]*` \| \[.*?\]\(schemas/(.*?)\) \|", PAGE.read_text(), re.MULTILINE)
    assert rows == [(name, schema_file(name).name) for name in OUTPUTS]


@pytest.mark.parametrize("name", OUTPUTS)
def test_page_lists_the_exit_codes_of_the_help(name):
    """Beside 2 and 3, which stand for input that cannot be read and for an internal error."""
    stated = main.get_command(click.Context(main), name).help.partition("Exit code: ")[2]
    codes = {int(code) for code in re.findall(r"(\d+) if", stated)} or {0}
    assert exit_codes(name) - {2} == codes - {2, 3}


@pytest.mark.parametrize(
    ("code", "text"),
    [(3, "[]"), (2, '{"notes": []}'), (0, ""), (1, "")],
)
def test_output_with_another_exit_code_than_the_page_lists_fails(code, text):
    with pytest.raises(ValueError, match=f"usage ends with {code} and"):
        check_output(["usage", "-o", "json"], code, text)


if __name__ == "__main__":
    for each in OUTPUTS:
        schema_file(each).write_text(schema_text(each))
