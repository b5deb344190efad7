"""The JSON schemas of all `-o json` outputs, made from the types of the printed documents.

The types are TypedDicts beside the code that makes the documents, so mypy compares each field with them. The published schemas
allow further fields, because later versions may add some; `closed_schema` does not, for tests.
"""

from __future__ import annotations

import json
import re
import types
from functools import cache
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

# Stubs of it would serve this file only.
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from policies.audit import AuditJSON
from policies.json_documents import documents_adapter
from policies.quota.report.quota_json import QuotasJSON
from policies.usage import UsageJSON
from webhook.cli.commands.rules import RulesJSON
from webhook.cli.doctor.report import DiagnosisJSON
from webhook.cli.explanations import ExplanationsJSON
from webhook.cli.migrations.proofs import ProofJSON
from webhook.cli.plan_reports import PlanReportJSON
from webhook.cli.preflight.report import PreflightJSON
from webhook.cli.review_outputs.json import ReviewsJSON

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = [
    "FOLDER",
    "OUTPUTS",
    "check_output",
    "closed_schema",
    "exit_codes",
    "output_schema",
    "schema_file",
    "schema_text",
    "validator",
]

_DOCS = Path(__file__).parents[1] / "docs"
FOLDER = _DOCS / "schemas"
VERSION = 1
"""The version of all outputs; raised if a field goes away or changes its meaning."""

OUTPUTS: dict[str, Any] = {
    "audit": AuditJSON,
    "cel": ("webhook.cli.selector_analyses", "AnalysesJSON"),
    "doctor": DiagnosisJSON,
    "explain": ExplanationsJSON,
    "migrate": ProofJSON,
    "plan": PlanReportJSON,
    "preflight": PreflightJSON,
    "quota": QuotasJSON,
    "review": ReviewsJSON,
    "rules": RulesJSON,
    "usage": UsageJSON,
}
"""The module and the name of the type of each command's output."""
_ELSEWHERE = (
    "policies.dra.workbench.selector_report",
    "policies.quota.charges",
    "policies.admission.objects",
)
"""Modules with types that others import for type checking only."""
_SIMPLE: dict[Any, dict[str, Any]] = {
    Any: {},
    bool: {"type": "boolean"},
    float: {"type": "number"},
    int: {"type": "integer"},
    str: {"type": "string"},
    types.NoneType: {"type": "null"},
}


def output_schema(name: str) -> dict[str, Any]:
    """The published schema of a command's output."""
    if isinstance(OUTPUTS[name], tuple):
        module, type_name = OUTPUTS[name]
        definitions = _Definitions()
        schema = definitions.schema_of(getattr(import_module(module), type_name))
        found = definitions.schemas
    else:
        described = documents_adapter(OUTPUTS[name]).json_schema(mode="serialization")
        found = {
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
    return {**head, **schema, "$defs": dict(sorted(found.items()))}


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


@cache
def _names() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for module in _ELSEWHERE:
        found.update(vars(import_module(module)))
    return found


class _Definitions:
    """The schemas of types, and of the types that they consist of."""

    def __init__(self) -> None:
        self.schemas: dict[str, Any] = {}
        self._records: dict[str, Any] = {}

    def schema_of(self, hint: Any) -> dict[str, Any]:
        """The schema of a type."""
        if hint in _SIMPLE:
            return _SIMPLE[hint]
        if is_typeddict(hint):
            return self._reference(hint)
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is Annotated:
            base, *more = arguments
            values = [value.value for each in more for value in each]
            return {**self.schema_of(base), "enum": values}
        if origin is Literal:
            return {"type": "string", "enum": [*arguments]}
        if origin is list:
            return {"type": "array", "items": self.schema_of(arguments[0])}
        if origin is dict:
            return {"type": "object", "additionalProperties": self.schema_of(arguments[1])}
        if origin in (Union, types.UnionType):
            return {"anyOf": [self.schema_of(each) for each in arguments]}
        raise TypeError(f"no schema for {hint}")

    def _reference(self, record: Any) -> dict[str, Any]:
        name = record.__name__.removeprefix("_").removesuffix("JSON")
        if name not in self._records:
            self._records[name] = record
            self.schemas[name] = self._record_schema(record)
        if self._records[name] is not record:
            raise TypeError(f"two types of one output are named {name}")
        return {"$ref": f"#/$defs/{name}"}

    def _record_schema(self, record: Any) -> dict[str, Any]:
        # The names of the module come last, so that they win.
        names = {**_names(), **vars(import_module(record.__module__))}
        hints = get_type_hints(record, localns=names, include_extras=True)
        optional = {name for name, hint in hints.items() if get_origin(hint) is NotRequired}
        return {
            "description": " ".join((record.__doc__ or "").split()),
            "type": "object",
            "properties": {
                name: self.schema_of(get_args(hint)[0] if name in optional else hint) for name, hint in hints.items()
            },
            "required": [name for name in hints if name not in optional],
        }
