"""Parsing of a GPUAdmissionPolicy: its envelope, the types of its settings, and error messages."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import FieldPath
from policies.settings.checks import spec_problems
from policies.settings.choices import GPUAdmissionPolicy
from policies.settings.placement_checks import joint_problems
from policies.typed_input import type_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import TypeAdapter

__all__ = ["SettingsError", "parse_settings"]

API_VERSION = "gpu-admission.io/v1alpha1"
_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_SPEC = FieldPath(["spec"])

_NO_EXECUTE = (
    "is NoExecute, which no pod is made to tolerate: it would stay on a node that everything else has to leave; write "
    "such a toleration into the pods that are meant to stay"
)


class SettingsError(ValueError):
    """A document that is no valid GPUAdmissionPolicy; `problems` holds (field path, sentence) pairs."""

    def __init__(self, problems: list[tuple[FieldPath, str]]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{path}: {sentence}" if path else sentence for path, sentence in problems))


def parse_settings(document: Any) -> GPUAdmissionPolicy:
    """Read a GPUAdmissionPolicy object.

    Raises:
        SettingsError: with every problem of the document.
    """
    from pydantic import ValidationError

    if not isinstance(document, dict):
        said = "a GPUAdmissionPolicy is a mapping with apiVersion, kind, metadata and spec"
        raise SettingsError([(FieldPath(), said)])
    problems = list(_envelope_problems(document))
    spec = {} if document.get("spec") is None else document["spec"]
    try:
        # As JSON and strictly, because that is how the API server reads it: "no" is text, and 1 is not true.
        policy = _adapter().validate_json(json.dumps(spec, default=str), strict=True)
    except ValidationError as error:
        problems += [_type_problem(detail) for detail in error.errors(include_url=False)]
    except RecursionError as error:
        raise SettingsError([(_SPEC, "is nested more deeply than any setting is")]) from error
    problems += [(FieldPath((*_SPEC, *steps)), said) for steps, said in spec_problems(spec)]
    if not problems:
        problems = [
            (FieldPath((*_SPEC, "placement", "wishes", index, "wish")), said)
            for index, said in joint_problems(policy.placement.wishes)
        ]
    if problems:
        raise SettingsError(problems)
    return policy


@cache
def _adapter() -> TypeAdapter[GPUAdmissionPolicy]:
    from pydantic import TypeAdapter

    return TypeAdapter(GPUAdmissionPolicy)


def _envelope_problems(document: dict[str, Any]) -> Iterator[tuple[FieldPath, str]]:
    if document.get("apiVersion") != API_VERSION:
        yield FieldPath(["apiVersion"]), f'is {_value_text(document.get("apiVersion"))}; write "{API_VERSION}"'
    if document.get("kind") != "GPUAdmissionPolicy":
        yield FieldPath(["kind"]), f'is {_value_text(document.get("kind"))}; write "GPUAdmissionPolicy"'
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if name != "default":
        said = f'is {_value_text(name)}; a cluster has one GPUAdmissionPolicy, named "default"'
        yield FieldPath(["metadata", "name"]), said
    for key in document:
        if key not in _FIELDS:
            yield FieldPath([key]), "is an unknown field of a GPUAdmissionPolicy; settings are under spec"


def _value_text(value: Any) -> str:
    return "missing" if value is None else f'"{value}"' if isinstance(value, str) else "not text"


def _type_problem(detail: Any) -> tuple[FieldPath, str]:
    """Where and what."""
    path = FieldPath((*_SPEC, *detail["loc"]))
    if detail["type"] in ("enum", "literal_error") and detail["input"] == "NoExecute":
        return path, _NO_EXECUTE
    return path, type_problem(detail, "is an unknown setting; docs/settings.md lists all settings")
