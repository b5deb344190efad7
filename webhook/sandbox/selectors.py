"""`labelSelector` and `fieldSelector` of lists and watches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.kubernetes.label_selectors import LabelSelectorError, parse_label_selector
from webhook.sandbox.statuses import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policies.kubernetes.label_selectors import Requirement
    from webhook.sandbox.kinds import Kind
    from webhook.sandbox.stored_entries import Entry

__all__ = ["Selection", "parse_selection"]


@dataclass(frozen=True, slots=True)
class _FieldTerm:
    field: str
    value: str
    equal: bool


@dataclass(frozen=True, slots=True)
class Selection:
    """The objects of a kind that a request selects."""

    namespace: str = ""
    """Empty for all."""
    labels: tuple[Requirement, ...] = ()
    fields: tuple[_FieldTerm, ...] = ()

    @property
    def selective(self) -> bool:
        """True if there is a selector beside the namespace."""
        return bool(self.labels or self.fields)

    def covers(self, entry: Entry) -> bool:
        """True if an object is selected."""
        namespace, name = entry.name
        if self.namespace not in ("", namespace):
            return False
        values = {"metadata.name": name, "metadata.namespace": namespace, **entry.fields} if self.fields else {}
        return all((values[term.field] == term.value) is term.equal for term in self.fields) and all(
            _meets(entry.labels, requirement) for requirement in self.labels
        )


def parse_selection(kind: Kind, namespace: str, query: Mapping[str, str]) -> Selection:
    """The selection of a request's query.

    Raises:
        Refused: A selector is invalid, or has a field that this kind does not support.
    """
    try:
        labels = parse_label_selector(query.get("labelSelector", ""))
    except LabelSelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from error
    return Selection(namespace, labels, _fields(kind, query.get("fieldSelector", "")))


def _fields(kind: Kind, text: str) -> tuple[_FieldTerm, ...]:
    terms = tuple(_field_term(text, part) for part in text.split(",") if part)
    for term in terms:
        if term.field not in ("metadata.name", "metadata.namespace", *kind.fields):
            raise bad_request(_unknown_field(kind, term.field))
    return terms


def _unknown_field(kind: Kind, field: str) -> str:
    if kind.fields or kind.custom:
        return f"field label not supported: {field}"
    return f'"{field}" is not a known field selector: only "metadata.name", "metadata.namespace"'


def _field_term(text: str, part: str) -> _FieldTerm:
    for operator in ("!=", "==", "="):
        field, found, value = part.partition(operator)
        if found:
            return _FieldTerm(field, value, equal=operator != "!=")
    raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")


def _meets(labels: Mapping[str, str], requirement: Requirement) -> bool:
    value = labels.get(requirement.key)
    return _OPERATORS[requirement.operator](value, requirement.values)


def _difference(value: str | None, values: frozenset[str]) -> int | None:
    """A label's number minus the number of a requirement; None if the label is not a number."""
    try:
        return None if value is None else int(value) - int(next(iter(values)))
    except ValueError:
        return None


_OPERATORS: dict[str, Callable[[str | None, frozenset[str]], bool]] = {
    "in": lambda value, values: value in values,
    "=": lambda value, values: value in values,
    "==": lambda value, values: value in values,
    "notin": lambda value, values: value not in values,
    "!=": lambda value, values: value not in values,
    "exists": lambda value, _: value is not None,
    "!": lambda value, _: value is None,
    ">": lambda value, values: (_difference(value, values) or 0) > 0,
    "<": lambda value, values: (_difference(value, values) or 0) < 0,
}
