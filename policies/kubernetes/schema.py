"""Schemas of objects, in a notation that is easy to compare with the documentation.

Each line is a field; indentation is nesting:

```
driver!: object                  a required field
  kernelModuleType: string one of "auto", "open", "proprietary"
  hostPort: integer deprecated
  tolerations: [object]          a list; without lines below it, of objects of any shape
  labels: {string}               a map
  + component                    fields that occur in several places, by a name
gds: object + env, image         the same, on one line
```
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from policies.kubernetes.names import closest, write_field
from policies.kubernetes.quantities import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.kubernetes.objects import FieldPath


_LINE = re.compile(r"( *)(?=\S)(?:(?P<name>\w+)(?P<required>!)?: (?P<type>\S+)(?P<rest>[^+]*))?(?:\+ (?P<blocks>.+))?")
_SCALARS = ("string", "boolean", "integer", "quantity", "int-or-string")
_BOUND = re.compile(r"at (least|most) (\d+)")


@dataclass(slots=True)
class Field:
    """The schema of one field."""

    type: str
    """`string`, `boolean`, `integer`, `quantity`, `int-or-string` or `object`; in brackets a list, in braces a map."""
    required: bool = False
    deprecated: bool = False
    choices: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None
    fields: dict[str, Field] = field(default_factory=dict)
    """The fields of the object, or of the objects in the list; empty if any fields are allowed."""


@dataclass(frozen=True, slots=True)
class SchemaProblem:
    """Something in a document that its schema does not allow or that is deprecated."""

    kind: Literal["unknown", "required", "type", "choice", "bound", "deprecated", "null"]
    path: FieldPath
    message: str
    remedy: str


def parse_schema(text: str, blocks: Mapping[str, str] | None = None) -> Field:
    """Parse the schema of a `spec`.

    Args:
        text: The schema.
        blocks: The lines that replace `+ name`, by name.

    Raises:
        ValueError: a line does not follow the notation.
    """
    root = Field("object")
    _parse_into(root, text, blocks or {})
    return root


def _parse_into(root: Field, text: str, blocks: Mapping[str, str]) -> None:
    open_fields: list[tuple[int, Field]] = [(-1, root)]
    for line in text.strip("\n").splitlines():
        match = _LINE.fullmatch(line)
        if match is None:
            raise ValueError(f"invalid line of a schema: {line!r}")
        indentation = len(match.group(1))
        while open_fields[-1][0] >= indentation:
            open_fields.pop()
        parent = open_fields[-1][1]
        if match["name"]:
            bounds = {side: int(number) for side, number in _BOUND.findall(match["rest"])}
            parent.fields[match["name"]] = new = Field(
                match["type"],
                required=match["required"] is not None,
                deprecated="deprecated" in match["rest"],
                choices=tuple(re.findall(r'"([^"]*)"', match["rest"])),
                least=bounds.get("least"),
                most=bounds.get("most"),
            )
            open_fields.append((indentation, new))
            parent = new
        for block in match["blocks"].split(", ") if match["blocks"] else ():
            _parse_into(parent, blocks[block], blocks)


def find_problems(schema: Field, document: Any, path: FieldPath) -> Iterator[SchemaProblem]:
    """All problems of a document. A null counts as missing, as in the API server."""
    inner = schema.type.strip("[]{}")
    if schema.type.startswith("["):
        if not isinstance(document, list):
            yield wrong_type(path, document, "a list")
            return
        for index, item in enumerate(document):
            yield from _find_in_value(schema, inner, item, path / index)
    elif schema.type.startswith("{"):
        if not isinstance(document, dict):
            yield wrong_type(path, document, "a mapping")
            return
        for key, item in document.items():
            yield from _find_in_value(Field(inner), inner, item, path / key)
    else:
        yield from _find_in_value(schema, inner, document, path)


_SHAPES: dict[str, tuple[tuple[type, ...], str]] = {
    "string": ((str,), "text"),
    "boolean": ((bool,), "true or false"),
    "integer": ((int,), "a whole number"),
    "int-or-string": ((int, str), 'a whole number or a percentage such as "25%"'),
    "object": ((dict,), "a mapping"),
}


_WHOLE = re.compile(r"-?[0-9]{1,19}")
_EXAMPLES = {
    "text": 'write one value in quotes, such as "a"',
    "true or false": "write one of the two",
    "a whole number": "write one such as 1",
    _SHAPES["int-or-string"][1]: "write one of these",
    "a mapping": "write its fields below it",
    "a list": "write entries, each with a dash before it",
}


def _find_in_value(schema: Field, kind: str, value: Any, path: FieldPath) -> Iterator[SchemaProblem]:
    if kind == "quantity":
        try:
            parse_quantity(value)
        except QuantityError as error:
            yield SchemaProblem("type", path, f"{_printable(value)} {error}", 'write a quantity such as "1Gi"')
        return
    types, wanted = _SHAPES[kind]
    if not isinstance(value, types) or (isinstance(value, bool) and kind != "boolean"):
        yield wrong_type(path, value, wanted)
        return
    if schema.choices and value not in schema.choices:
        listed = ", ".join(f'"{choice}"' for choice in schema.choices)
        guess = closest(value, schema.choices)
        remedy = f'write "{guess}"' if guess else f"write one of {listed}"
        yield SchemaProblem(
            "choice", path, f"Unsupported value: {_printable(value)}: supported values: {listed}", remedy
        )
    if schema.least is not None and isinstance(value, int) and value < schema.least:
        yield SchemaProblem("bound", path, f"is {value}; the least is {schema.least}", f"write {schema.least} or more")
    if schema.most is not None and isinstance(value, int) and value > schema.most:
        yield SchemaProblem("bound", path, f"is {value}; the most is {schema.most}", f"write {schema.most} or less")
    if isinstance(value, dict) and schema.fields:
        yield from _find_in_fields(schema, value, path)


_MOST_GUESSED = 50
"""Unknown fields of one mapping for which a similar name is searched; a search takes a tenth of a millisecond."""


def _find_in_fields(schema: Field, value: dict[str, Any], path: FieldPath) -> Iterator[SchemaProblem]:
    for name, known in schema.fields.items():
        if known.required and value.get(name) is None:
            text, remedy = "is missing", f"add {name}{': {}' if known.type == 'object' else ''}"
            if name in value and known.type == "object":
                text, remedy = "is empty, which counts as missing", f"indent its lines, or write {name}: {{}}"
            yield SchemaProblem(
                "required", path / name, f"{text}; the API server refuses the object without it", remedy
            )
    unknown = 0
    for name, item in value.items():
        known_field = schema.fields.get(name)
        if known_field is None:
            unknown += 1
            remedy = "remove it"
            if unknown <= _MOST_GUESSED:
                listed = f"remove it; there are {', '.join(sorted(schema.fields))}"
                is_nested = isinstance(item, dict | list)
                # A mapping is no mistyped field of text.
                likely = [each for each, of in schema.fields.items() if not is_nested or of.type not in _SCALARS]
                remedy = write_field(name, likely, value, listed)
            text = "unknown field: the API server drops it silently, so it has no effect"
            yield SchemaProblem("unknown", path / name, text, remedy)
        elif item is None:
            if known_field.type == "object" and not known_field.required:
                text = "is empty, so what should be in it is missing or stands beside it"
                yield SchemaProblem("null", path / name, text, f"indent its lines, or write {name}: {{}}")
        else:
            # Helm charts also render fields that are empty or turned off.
            is_used = item.get("enabled", bool(item)) is not False if isinstance(item, dict) else bool(item)
            if known_field.deprecated and is_used:
                yield SchemaProblem("deprecated", path / name, "is deprecated and has no effect", "remove it")
            if known_field.type != "string" or known_field.choices or not isinstance(item, str):
                yield from find_problems(known_field, item, path / name)


def wrong_type(path: FieldPath, value: Any, wanted: str) -> SchemaProblem:
    """The problem of a value that must be text, true or false, a whole number, a mapping or a list."""
    return SchemaProblem("type", path, f"is {_printable(value)}; it must be {wanted}", _type_remedy(value, wanted))


def _type_remedy(value: Any, wanted: str) -> str:
    """The remedy for a value of a wrong type; an example if the value cannot be converted."""
    if wanted == "text" and not isinstance(value, dict | list):
        return "put it in quotes"
    if wanted == "text" and isinstance(value, dict) and [*value] == ["name"] and isinstance(value["name"], str):
        # Pods have imagePullSecrets of this shape.
        return f'write "{value["name"]}"'
    plain = value.strip().lower() if isinstance(value, str) else ""
    if (wanted == "true or false" and plain in ("true", "false")) or (
        wanted == "a whole number" and _WHOLE.fullmatch(plain)
    ):
        return f"write {plain}, without quotes"
    if wanted == "a list" and isinstance(value, str | dict):
        return "put a dash before each entry"
    return _EXAMPLES[wanted]


_LONGEST = 80
"""Maximum characters of a text in a message."""


def _printable(value: Any) -> str:
    """A value as a message shows it: a long text is shortened, a list or mapping is only named."""
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    if isinstance(value, str) and len(value) > _LONGEST:
        value = f"{value[: _LONGEST - 3]}..."
    text = {True: "true", False: "false", None: "null"}.get(value) if value is None or isinstance(value, bool) else None
    return text or (f'"{value}"' if isinstance(value, str) else str(value))
