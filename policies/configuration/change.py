"""A change of configuration: the object before and after, the user, and the facts to judge it by."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.configuration.schemas import SCHEMAS
from policies.kubernetes.objects import Object, name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.schema import SchemaProblem, find_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.facts import Facts
    from policies.request import Operation, Request, UserInfo

__all__ = ["APPLIED", "SPEC", "Change", "Section", "applied_spec"]

SPEC = FieldPath(["spec"])
APPLIED = ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
"""Where `kubectl apply` keeps the manifest, with the fields that the API server dropped."""


class _Fields(ABC):
    """Fields of a spec, read by their type: a value of another type counts as missing."""

    @abstractmethod
    def value(self, *steps: str | int) -> Any:
        """The value of a field; None if it is missing."""

    @abstractmethod
    def value_before(self, *steps: str | int) -> Any:
        """The value of a field before an update; None if it was missing."""

    @abstractmethod
    def at(self, *steps: str | int) -> FieldPath:
        """The path of a field."""

    def text(self, *steps: str | int) -> str:
        """The string of a field; empty if it is missing."""
        value = self.value(*steps)
        return value if isinstance(value, str) else ""

    def number(self, *steps: str | int) -> int | None:
        """The integer of a field; None if it is missing."""
        value = self.value(*steps)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def mapping(self, *steps: str | int) -> dict[str, Any]:
        """The mapping of a field; empty if it is missing."""
        value = self.value(*steps)
        return value if isinstance(value, dict) else {}

    def items(self, *steps: str | int) -> list[Any]:
        """The list of a field; empty if it is missing."""
        value = self.value(*steps)
        return value if isinstance(value, list) else []

    def flag(self, *steps: str | int, default: bool = False) -> bool:
        """The boolean of a field; `default`, which is the operator's, if it is missing."""
        value = self.value(*steps)
        return value if isinstance(value, bool) else default

    def variables(self, *steps: str | int) -> Iterator[tuple[int, str, str | None]]:
        """Index, name and value of the environment variables in a list; None for a value that is not a string."""
        for index, item in enumerate(self.items(*steps)):
            name, value = lookup(item, ("name",)), lookup(item, ("value",))
            if isinstance(name, str):
                yield index, name, value if isinstance(value, str) else None


@dataclass(frozen=True)
class Change(_Fields):
    """The creation, update or deletion of one object; fields are read from its spec."""

    object: Object
    """The object after the change; on DELETE, before it."""
    old: Object | None
    """The object before the change; None on CREATE."""
    operation: Operation
    user: UserInfo
    namespace: str
    facts: Facts
    api_version: str
    kind: str

    @classmethod
    def of(cls, request: Request, facts: Facts) -> Change | None:
        """The change of a request; None if it has no object."""
        document = request.object if request.operation != "DELETE" else request.old_object or request.object
        if not isinstance(document, dict):
            return None
        version = document.get("apiVersion")
        return cls(
            document,
            request.old_object,
            request.operation,
            request.user,
            request.namespace,
            facts,
            version if isinstance(version, str) else "",
            request.kind,
        )

    @property
    def is_created(self) -> bool:
        """True if the object is new."""
        return self.operation == "CREATE"

    @property
    def is_deleted(self) -> bool:
        """True if the object is deleted."""
        return self.operation == "DELETE"

    @property
    def is_read_by_operator(self) -> bool:
        """True if the object is in the operator's namespace, or in a file that names no namespace."""
        return self.namespace in ("", *self.facts.operator_namespaces)

    @property
    def name(self) -> str:
        """The object's name."""
        return name_of(self.object)

    @property
    def spec(self) -> dict[str, Any]:
        """The object's spec; empty if it is missing or not a mapping."""
        spec = self.object.get("spec")
        return spec if isinstance(spec, dict) else {}

    @cached_property
    def schema_problems(self) -> tuple[SchemaProblem, ...]:
        """What the schema of its kind does not allow in the spec; empty without a spec or a schema."""
        spec, schema = self.object.get("spec"), SCHEMAS.get(self.kind)
        return tuple(find_problems(schema, spec, SPEC)) if schema is not None and spec is not None else ()

    def value(self, *steps: str | int) -> Any:
        """The value at `spec.<steps>`; None if it is missing."""
        return lookup(self.spec, steps)

    def value_before(self, *steps: str | int) -> Any:
        """The value at `spec.<steps>` before an update."""
        return lookup(self.old, ("spec", *steps))

    def at(self, *steps: str | int) -> FieldPath:
        """The path of `spec.<steps>`."""
        return FieldPath((*SPEC, *steps))

    def section(self, *steps: str) -> Section:
        """The part of the spec at `spec.<steps>`."""
        return Section(self, steps)


@dataclass(frozen=True)
class Section(_Fields):
    """A part of a spec, such as `driver`, whose fields are read relative to it."""

    change: Change
    steps: tuple[str, ...]
    """Where in the spec it is; empty for the whole spec."""

    def value(self, *steps: str | int) -> Any:
        """The value of a field; None if it is missing."""
        return self.change.value(*self.steps, *steps)

    def value_before(self, *steps: str | int) -> Any:
        """The value of a field before an update; None if it was missing."""
        return self.change.value_before(*self.steps, *steps)

    def at(self, *steps: str | int) -> FieldPath:
        """The path of a field."""
        return self.change.at(*self.steps, *steps)


def applied_spec(document: Object) -> dict[str, Any] | None:
    """The spec that `kubectl apply` sent last; None if it was not applied, or the note cannot be read."""
    note = lookup(document, APPLIED)
    try:
        spec = lookup(json.loads(note), ("spec",)) if isinstance(note, str) else None
    except (ValueError, RecursionError):
        return None
    return spec if isinstance(spec, dict) else None
