"""The JSON schemas of all `-o json` outputs, as pydantic describes the dataclasses that are printed.

The published schemas allow further fields, because later versions may add some; `closed_schema` does not, for tests.
"""

from __future__ import annotations

import json
import re
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Stubs of it would serve this file only.
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from policies.analyses.audit import AuditJSON
from policies.analyses.cutover import CutoverPlan
from policies.analyses.explain import Headroom
from policies.analyses.usage import UsageJSON
from policies.kubernetes.objects import documents_adapter
from policies.quota.hours_report import HoursJSON
from policies.quota.quota_json import QuotasJSON
from webhook.cli.commands.rules import RulesJSON
from webhook.cli.explain.explanations import ExplanationsJSON
from webhook.cli.explain.plans import PlanReportJSON
from webhook.cli.explain.selector_analyses import AnalysesJSON
from webhook.cli.installation.doctor import DiagnosisJSON
from webhook.cli.installation.preflight import PreflightJSON
from webhook.cli.migrations.proofs import ProofJSON
from webhook.cli.review.json import ReviewsJSON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


_DOCS = Path(__file__).parents[1] / "docs"
FOLDER = _DOCS / "schemas"
VERSION = 1
"""The version of all outputs; raised if a field goes away or changes its meaning."""

OUTPUTS: dict[str, Any] = {
    "audit": AuditJSON,
    "cel": AnalysesJSON,
    "cutover": CutoverPlan,
    "doctor": DiagnosisJSON,
    "explain": ExplanationsJSON,
    "migrate": ProofJSON,
    "plan": PlanReportJSON,
    "preflight": PreflightJSON,
    "quota": QuotasJSON | HoursJSON | list[Headroom],
    "review": ReviewsJSON,
    "rules": RulesJSON,
    "usage": UsageJSON,
}
"""The type of each command's output."""


def output_schema(name: str) -> dict[str, Any]:
    """The published schema of a command's output."""
    described = documents_adapter(OUTPUTS[name]).json_schema(mode="serialization")
    definitions = {
        _published_name(key): _published_schema(each, described["$defs"])
        for key, each in described["$defs"].items()
        if "enum" not in each
    }
    schema = _published_schema(described["items"], described["$defs"])
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:gpu-admission:output:{name}:v{VERSION}",
        "title": f"gpu-admission {name} -o json",
    }
    return {**head, **schema, "$defs": dict(sorted(definitions.items()))}


def _published_name(class_name: str) -> str:
    """The name of a class in a schema; classes that are only JSON end with it."""
    return class_name.removeprefix("_").removesuffix("JSON")


def _published_schema(schema: Any, definitions: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without titles, defaults and formats, and with the values of enumerations in place."""
    if schema is True:
        return {}
    name = schema.get("$ref", "").removeprefix("#/$defs/")
    if name and "enum" in definitions[name]:
        return {"type": "string", "enum": definitions[name]["enum"]}
    kept = {key: schema[key] for key in ("description", "type", "enum") if key in schema}
    if "description" in kept:
        kept["description"] = " ".join(kept["description"].split())
    if name:
        kept["$ref"] = f"#/$defs/{_published_name(name)}"
    for key in ("items", "additionalProperties"):
        if key in schema:
            kept[key] = _published_schema(schema[key], definitions)
    if "anyOf" in schema:
        kept["anyOf"] = [_published_schema(each, definitions) for each in schema["anyOf"]]
    if "properties" in schema:
        kept["properties"] = {key: _published_schema(each, definitions) for key, each in schema["properties"].items()}
        kept["required"] = schema["required"]
    return kept


def schema_text(name: str) -> str:
    """The text of the published file."""
    return json.dumps(output_schema(name), indent=2) + "\n"


def schema_file(name: str) -> Path:
    """The published file."""
    return FOLDER / f"{name}.v{VERSION}.json"


def closed_schema(schema: Any) -> Any:
    """The schema without further fields."""
    if isinstance(schema, list):
        return [closed_schema(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {key: closed_schema(each) for key, each in schema.items()}
    return {**closed, "additionalProperties": False} if "properties" in schema else closed


@cache
def validator(name: str) -> Draft202012Validator:
    """Validates outputs of a command, without further fields, by the schema in docs."""
    return Draft202012Validator(closed_schema(json.loads(schema_file(name).read_text())))


@cache
def exit_codes(name: str) -> frozenset[int]:
    """The exit codes with which a command prints JSON, as docs/json-outputs.md lists them."""
    row = rf"^\| `gpu-admission {name}\b.*\| (.*?) \|$"
    (codes,) = re.findall(row, (_DOCS / "json-outputs.md").read_text(), re.MULTILINE)
    return frozenset(map(int, re.findall(r"\b\d+\b", codes)))


def check_output(arguments: Sequence[str], code: int, text: str) -> None:
    """Check the output of a command against its schema and its exit code, if it is JSON for programs.

    Raises:
        jsonschema.ValidationError: The output does not match the schema.
        ValueError: There is output with an exit code for which none is documented, or none though it is.
    """
    command, *options = arguments or [""]
    formats = {following for option, following in pairwise(options) if option in ("-o", "--output")}
    if command not in OUTPUTS or formats != {"json"}:
        return
    codes = exit_codes(command)
    # With 2, some commands print what they could read, and nothing if they could read nothing.
    required = codes - {2}
    if (text and code not in codes) or (not text and code in required):
        raise ValueError(f"{command} ends with {code} and {'output' if text else 'no output'}; see json-outputs.md")
    if text:
        validator(command).validate(json.loads(text))
