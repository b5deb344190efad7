"""A change of configuration: what somebody does to one object, and the facts to judge it by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.configuration.schemas import SCHEMAS
from policies.kubernetes.objects import Object, name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.schema import SchemaProblem, find_problems

if TYPE_CHECKING:
    from policies.configuration.facts import Facts
    from policies.request import Operation, Request, UserInfo

__all__ = ["SPEC", "Change"]

SPEC = FieldPath(["spec"])


@dataclass(frozen=True)
class Change:
    """Somebody creates, updates or deletes an object."""

    object: Object
    """The object as it is to be; on DELETE, as it is."""
    old: Object | None
    """The object as it is; None on CREATE."""
    operation: Operation
    user: UserInfo
    namespace: str
    facts: Facts
    api_version: str
    kind: str

    @classmethod
    def of(cls, request: Request, facts: Facts) -> Change | None:
        """The change that a request asks for; None where it names no object."""
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
    def created(self) -> bool:
        """Whether the object is new."""
        return self.operation == "CREATE"

    @property
    def deleted(self) -> bool:
        """Whether the object is going away."""
        return self.operation == "DELETE"

    @property
    def is_read_by_operator(self) -> bool:
        """True if the operator may read the object: it is in its namespace, or in a file that names no namespace."""
        return self.namespace in ("", *self.facts.operator_namespaces)

    @property
    def name(self) -> str:
        """The object's name."""
        return name_of(self.object)

    @property
    def spec(self) -> dict[str, Any]:
        """The object's spec; empty where it has none or it is no mapping."""
        spec = self.object.get("spec")
        return spec if isinstance(spec, dict) else {}

    @cached_property
    def schema_problems(self) -> tuple[SchemaProblem, ...]:
        """What the schema of its kind says about the spec; nothing where there is no spec, or no schema."""
        spec, schema = self.object.get("spec"), SCHEMAS.get(self.kind)
        return tuple(find_problems(schema, spec, SPEC)) if schema is not None and spec is not None else ()

    def value(self, *steps: str | int) -> Any:
        """What is at `spec.<steps>`; None where nothing is."""
        return lookup(self.spec, steps)

    def text(self, *steps: str | int) -> str:
        """The text at `spec.<steps>`; empty where there is none, or something else."""
        value = self.value(*steps)
        return value if isinstance(value, str) else ""

    def mapping(self, *steps: str | int) -> dict[str, Any]:
        """The mapping at `spec.<steps>`; empty where there is none."""
        value = self.value(*steps)
        return value if isinstance(value, dict) else {}

    def items(self, *steps: str | int) -> list[Any]:
        """The list at `spec.<steps>`; empty where there is none."""
        value = self.value(*steps)
        return value if isinstance(value, list) else []

    def flag(self, *steps: str | int, default: bool = False) -> bool:
        """The boolean at `spec.<steps>`; `default`, which is the operator's when the field is omitted, otherwise."""
        value = self.value(*steps)
        return value if isinstance(value, bool) else default

    def before(self, *steps: str | int) -> Any:
        """What was at `spec.<steps>` before an update."""
        return lookup(self.old, ("spec", *steps))

    @staticmethod
    def at(*steps: str | int) -> FieldPath:
        """The path of `spec.<steps>`."""
        return FieldPath((*SPEC, *steps))
