"""Messages about input of a wrong type, in words of YAML; those of pydantic name types of Python."""

from __future__ import annotations

from typing import Any

from policies.kubernetes.phrases import quote

__all__ = ["type_problem"]

_WANTED = {
    "bool_type": "must be true or false",
    "dataclass_type": "must be a mapping",
    "dict_type": "must be a mapping",
    "list_type": "must be a list",
    "model_type": "must be a mapping",
    "string_type": "must be text",
    "tuple_type": "must be a list",
}
_UNKNOWN_FIELD = ("unexpected_keyword_argument", "extra_forbidden")


def type_problem(detail: Any, unknown_field: str) -> str:
    """What is wrong with a value, without a full stop.

    Args:
        detail: An item of `ValidationError.errors`.
        unknown_field: The sentence for a field that the format does not have.
    """
    kind, value = detail["type"], detail["input"]
    shown = quote(value) if isinstance(value, str | int | float | None) else _shape(value)
    if kind == "missing":
        return "is missing"
    if kind in _UNKNOWN_FIELD:
        return unknown_field
    if kind == "value_error":
        return str(detail["ctx"]["error"])
    if kind in ("enum", "literal_error"):
        expected = detail["ctx"]["expected"].replace("'", "")
        if value is False and "off" in expected:
            return 'is false, which is how YAML reads off; write "off" in quotes'
        return f"is {shown}; write {expected}"
    if kind in ("too_short", "string_too_short"):
        return "must not be empty"
    wanted = _WANTED.get(kind)
    if wanted == "must be text" and isinstance(value, int | float):
        wanted = "must be text, in quotes"
    message: str = detail["msg"]
    return f"is {shown}; it {wanted}" if wanted else message[:1].lower() + message[1:]


def _shape(value: Any) -> str:
    return "a list" if isinstance(value, list) else "a mapping"
