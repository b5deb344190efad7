"""The types of fields: those that an expression selects, and those that a message is written with."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel import types
from policies.dra.cel.checker.unification import is_dynamic_or_error
from policies.dra.cel.spelling import declared, runtime_name

if TYPE_CHECKING:
    from policies.dra.cel.checker.unification import Substitution
    from policies.dra.cel.environment import Environment
    from policies.dra.cel.issues import IssueList
    from policies.dra.cel.types import Type

__all__ = ["Fields"]

_MESSAGES = {
    "duration": "google.protobuf.Duration",
    "timestamp": "google.protobuf.Timestamp",
    "null": "google.protobuf.NullValue",
}
"""Types that are written like messages although they are none, with the names that their fields are found under."""


class Fields:
    """Finds the types of fields, and reports those that do not exist."""

    def __init__(self, environment: Environment, substitution: Substitution, issues: IssueList) -> None:
        """Args: where fields are declared, what is known about type parameters, and what to add issues to."""
        self._declared = environment.fields
        self._substitution = substitution
        self._report = issues.report

    def selected(self, offset: int, operand: Type, field: str, *, optional: bool) -> Type:
        """The type of `operand.field` or, if optional, of `operand.?field`; a field of an optional is optional."""
        target = self._substitution.resolve(operand)
        is_optional = target.name == "optional_type"
        selected = self._field_of(offset, target.parameters[0] if is_optional else target, field)
        return types.optional_of(selected) if optional or is_optional else selected

    def described(self, offset: int, named: Type) -> Type:
        """The type that stands before the brace of a message; it is reported if messages cannot have it."""
        if named.kind == "error":
            return named
        if named.kind != "type":
            self._report(offset, f"'{runtime_name(named)}' is not a type")
            return types.ERROR
        described = named.parameters[0]
        if self.message(described) is types.ERROR:
            self._report(offset, f"'{runtime_name(described)}' is not a message type")
        return described

    def message(self, described: Type) -> Type:
        """The type of a message, or an error if it is none that messages have."""
        return described if described.kind == "object" or described.name in _MESSAGES else types.ERROR

    def written(self, offset: int, described: Type, name: str, field: str) -> Type:
        """The type that a field of a message has to have; `name` is what stands before the brace."""
        if described.kind == "map":
            return described.parameters[1]
        name = described.name if described.kind == "object" else name
        return self._declared_field(offset, _MESSAGES.get(described.name, name), field)

    def _field_of(self, offset: int, target: Type, field: str) -> Type:
        if target.kind == "map":
            return target.parameters[1]
        if target.kind == "object":
            return self._declared_field(offset, target.name, field)
        if target.kind == "parameter":
            self._substitution.assign((types.DYN,), (target,))
        elif not is_dynamic_or_error(target):
            self._report(offset, f"type '{declared(target)}' does not support field selection")
        return types.DYN

    def _declared_field(self, offset: int, type_name: str, field: str) -> Type:
        fields = self._declared.get(type_name)
        if fields is None:
            self._report(offset, f"unexpected failed resolution of '{type_name}'")
        elif field not in fields:
            self._report(offset, f"undefined field '{field}'")
        else:
            return fields[field]
        return types.ERROR
