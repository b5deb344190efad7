"""Reads unvalidated API objects: absent fields have Go's zero value, wrong types raise errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.dra.allocation.errors import AllocationError
from policies.dra.claim_schemas import schema_of
from policies.dra.deviceclasses import DeviceClass
from policies.dra.resource_claims import Claim
from policies.kubernetes.paths import FieldPath
from policies.schema import find_problems

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.kubernetes.objects import Object

__all__ = ["flag", "integer", "items", "mapping", "objects", "read_claim", "read_classes", "text", "texts"]

_NOTHING: Mapping[str, Any] = {}


def read_claim(document: Object) -> Claim:
    """A ResourceClaim.

    Raises:
        AllocationError: a field of its spec has the wrong type.
    """
    claim = Claim(document)
    _check_types("ResourceClaim", claim.version, document, f"claim {claim.label}")
    return claim


def read_classes(documents: Iterable[Object]) -> Mapping[str, DeviceClass]:
    """DeviceClasses by name; the first of two with the same name counts.

    Raises:
        AllocationError: a field of a spec has the wrong type.
    """
    classes: dict[str, DeviceClass] = {}
    for document in documents:
        found = DeviceClass(document)
        _check_types("DeviceClass", "v1", document, f"class {found.name}")
        classes.setdefault(found.name, found)
    return classes


def _check_types(kind: str, version: str, document: Object, where: str) -> None:
    schema, spec = schema_of(kind, version) or schema_of(kind, "v1"), document.get("spec")
    if schema is not None and spec is not None:
        for found in find_problems(schema.fields["spec"], spec, FieldPath(("spec",))):
            if found.kind == "type" and found.path[-1] != "parameters":
                raise AllocationError(f"{where}: {found.path}: {found.message}")


def mapping(parent: Mapping[str, Any], key: str, where: str) -> Mapping[str, Any]:
    """A JSON object; empty if it is missing."""
    value = parent.get(key)
    if value is None:
        return _NOTHING
    if not isinstance(value, dict):
        raise _wrong(where, key, "an object", value)
    return value


def items(parent: Mapping[str, Any], key: str, where: str) -> list[Any]:
    """A JSON array; empty if it is missing."""
    value = parent.get(key)
    if value is None:
        return []
    if not isinstance(value, list):
        raise _wrong(where, key, "a list", value)
    return value


def objects(parent: Mapping[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    """A JSON array of objects; empty if it is missing."""
    found = items(parent, key, where)
    for position, value in enumerate(found):
        if not isinstance(value, dict):
            raise _wrong(where, f"{key}[{position}]", "an object", value)
    return found


def texts(parent: Mapping[str, Any], key: str, where: str) -> tuple[str, ...]:
    """A JSON array of strings; empty if it is missing."""
    found = items(parent, key, where)
    for position, value in enumerate(found):
        if not isinstance(value, str):
            raise _wrong(where, f"{key}[{position}]", "a string", value)
    return tuple(found)


def text(parent: Mapping[str, Any], key: str, where: str) -> str:
    """A string; empty if it is missing."""
    value = parent.get(key)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _wrong(where, key, "a string", value)
    return value


def integer(parent: Mapping[str, Any], key: str, where: str) -> int:
    """A whole number; 0 if it is missing."""
    value = parent.get(key)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int):
        raise _wrong(where, key, "a whole number", value)
    return value


def flag(parent: Mapping[str, Any], key: str, where: str) -> bool:
    """A bool; false if it is missing."""
    value = parent.get(key)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise _wrong(where, key, "true or false", value)
    return value


def _wrong(where: str, key: str, kind: str, value: object) -> AllocationError:
    shown = repr(value)
    return AllocationError(f"{where}: {key} must be {kind}, not {shown if len(shown) <= 60 else shown[:57] + '...'}")
