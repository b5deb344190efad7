"""Dataclasses as JSON: their fields are the keys, in camel case.

pydantic is imported when JSON is read or written, because text needs none of it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import TypeAdapter

__all__ = ["documents_adapter", "json_document", "parse_document"]


@cache
def documents_adapter(kind: Any) -> TypeAdapter[list[Any]]:
    """Reads, writes and describes lists of values of a type.

    pydantic takes no configuration for a dataclass itself, but for a list of it.
    """
    from pydantic import TypeAdapter

    return TypeAdapter(
        list[kind], config={"alias_generator": _camel, "json_schema_serialization_defaults_required": True}
    )


def json_document(value: Any, kind: Any) -> Any:
    """A value of a type as mappings, lists and scalars."""
    # Types are checked by mypy, and outputs by their schemas in tests; names in objects can be anything.
    (document,) = documents_adapter(kind).dump_python([value], mode="json", by_alias=True, warnings=False)
    return document


def parse_document(document: Any, kind: Any) -> Any:
    """The value of a type that `json_document` wrote; unknown keys are ignored.

    Raises:
        ValueError: The document has other types, or lacks a key that has no default.
    """
    from pydantic import ValidationError

    try:
        (value,) = documents_adapter(kind).validate_python([document])
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"][1:]))
        raise ValueError(f"{where}: {first['msg']}" if where else first["msg"]) from error
    return value


def _camel(name: str) -> str:
    """The name in camel case; a keyword of Python has a `_` at its end."""
    first, *others = name.rstrip("_").split("_")
    return first + "".join(each.capitalize() for each in others)
