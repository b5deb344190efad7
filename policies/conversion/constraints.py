"""Conditions on node labels that are about GPUs: read from a pod, translated, and removed from it.

A node selector and the expressions of one affinity term are AND-ed, terms are OR-ed. The GPU part can be removed from
the terms in two cases only: all terms agree on the rest, or all agree on the GPU part.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import is_label_value, shown
from policies.kubernetes.nodes import REQUIRED, required_terms
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.pods import SPEC
from policies.nvidia.labels import SharedGPUError, UntranslatableError, is_gpu_label, translate
from policies.nvidia.predicates import Predicate, all_of, any_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping

    from policies.nvidia.labels import Subject
    from policies.rules.patch import Editor


_SELECTOR = SPEC / "nodeSelector"
_AFFINITY = FieldPath([*SPEC, *REQUIRED])
_TERMS = _AFFINITY / "nodeSelectorTerms"
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_INTEGER = re.compile(r"-?[0-9]{1,18}")

Term = dict[str, Any]


class ConstraintError(ValueError):
    """A condition without an equivalent selector on devices."""

    def __init__(self, path: FieldPath, reason: str, *, shared: bool = False, mixed: bool = False) -> None:
        self.path = path
        self.shared = shared
        """True if it selects shared GPUs."""
        self.mixed = mixed
        """True if the combination of terms has no equivalent, rather than one condition."""
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class NodeConstraints:
    """The GPU part of a pod's node selector, and its required affinity terms if they have a GPU part."""

    node_selector: Mapping[str, str] = field(default_factory=dict)
    terms: list[Term] | None = None
    """All `nodeSelectorTerms` as the pod has them; None if none is about GPUs."""

    @classmethod
    def of(cls, spec: Mapping[str, Any], others: Container[str] = ()) -> NodeConstraints:
        """The constraints in a pod's spec, with some other labels of its node selector."""
        labels = spec.get("nodeSelector") or {}
        selector = {key: value for key, value in labels.items() if is_gpu_label(key) or key in others}
        terms = required_terms(spec)
        expressions = (item for term in terms for item in term.get("matchExpressions") or [])
        return cls(selector, terms if any(map(_is_about_gpus, expressions)) else None)

    def places(self) -> Iterator[tuple[FieldPath, str]]:
        """The conditions on GPUs: paths, each with the label."""
        yield from ((_SELECTOR / key, key) for key in self.node_selector)
        yield from ((path, expression["key"]) for path, expression in self._expressions())

    def selected_values(self, key: str) -> Iterator[tuple[FieldPath, str]]:
        """The values that a label must have, each with its path: by the selector and by every `In`."""
        if key in self.node_selector:
            yield _SELECTOR / key, self.node_selector[key]
        for path, expression in self._expressions():
            if expression.get("key") == key and expression.get("operator") == "In":
                for value in expression.get("values") or []:
                    yield path, value

    def always_selects(self, key: str) -> bool:
        """True if every node that the pod could have run on must have a certain value of this label."""
        return key in self.node_selector or all(
            any(item["key"] == key and item.get("operator") == "In" for _, item in self._gpu_expressions(index))
            for index, _ in self._matching_terms()
        )

    def predicate(self, subject: Subject) -> Predicate:
        """The predicate on devices that equals the conditions on their nodes.

        Raises:
            ConstraintError: no predicate on devices is exact.
        """
        selector = [_translate(path, expression, subject) for path, expression in self._entries()]
        if self.terms is None:
            return all_of(selector)
        predicates = [
            all_of(_translate(path, expression, subject) for path, expression in self._gpu_expressions(index))
            for index, _ in self._matching_terms()
        ]
        if not self._rests_agree() and any(predicate != predicates[0] for predicate in predicates):
            reason = (
                "the terms differ in their conditions on nodes and in their conditions on GPUs, so neither part can be "
                "separated"
            )
            raise ConstraintError(_TERMS, reason, mixed=True)
        return all_of([*selector, any_of(predicates)])

    def errors(self, subject: Subject) -> Iterator[ConstraintError]:
        """An error for each condition without an equivalent predicate on such a device."""
        terms = (condition for index, _ in self._matching_terms() for condition in self._gpu_expressions(index))
        for path, expression in (*self._entries(), *terms):
            try:
                _translate(path, expression, subject)
            except ConstraintError as error:
                yield error

    def remove(self, editor: Editor) -> None:
        """Remove the GPU part from the pod; only if `predicate` found an exact translation."""
        if self.node_selector and len(self.node_selector) == len(lookup(editor.document, _SELECTOR)):
            editor.remove(_SELECTOR)
        else:
            for key in self.node_selector:
                editor.remove(_SELECTOR / key)
        if self.terms is None:
            return
        rests = [(index, _rest(term)) for index, term in self._matching_terms()]
        if any(not rest for _, rest in rests):
            _remove_affinity(editor)
            return
        if self._rests_agree():
            for index in range(len(self.terms) - 1, -1, -1):
                if index != rests[0][0]:
                    editor.remove(_TERMS / index)
            rests = [(0, rests[0][1])]
        for index, _ in rests:
            path = _TERMS / index / "matchExpressions"
            expressions = lookup(editor.document, path) or []
            positions = [place for place, item in enumerate(expressions) if _is_about_gpus(item)]
            if positions and len(positions) == len(expressions):
                editor.remove(path)
            else:
                for position in reversed(positions):
                    editor.remove(path / position)

    def restore(self, editor: Editor, stored: Mapping[str, Any]) -> None:
        """Replace these constraints in a pod by those of its stored spec."""
        kept = stored.get("nodeSelector") or {}
        if not kept and len(self.node_selector) == len(lookup(editor.document, _SELECTOR) or {}) > 0:
            editor.remove(_SELECTOR)
        else:
            for key, value in self.node_selector.items():
                if key not in kept:
                    editor.remove(_SELECTOR / key)
                elif kept[key] != value:
                    editor.replace(_SELECTOR / key, kept[key])
        required = lookup(stored, REQUIRED)
        if self.terms is None or required == lookup(editor.document, _AFFINITY):
            return
        if required is None:
            _remove_affinity(editor)
        else:
            editor.replace(_AFFINITY, required)

    def _matching_terms(self) -> list[tuple[int, Term]]:
        """The terms that can match a node, with their indexes; a term without expressions matches none."""
        return [
            (index, term)
            for index, term in enumerate(self.terms or [])
            if term.get("matchExpressions") or term.get("matchFields")
        ]

    def _rests_agree(self) -> bool:
        rests = [_rest(term) for _, term in self._matching_terms()]
        return all(rest == rests[0] for rest in rests)

    def _gpu_expressions(self, index: int) -> list[tuple[FieldPath, Term]]:
        expressions = (self.terms or [])[index].get("matchExpressions") or []
        path = _TERMS / index / "matchExpressions"
        return [
            (path / position, expression)
            for position, expression in enumerate(expressions)
            if _is_about_gpus(expression)
        ]

    def _entries(self) -> Iterator[tuple[FieldPath, Term]]:
        """The entries of the node selector, as expressions."""
        for key, value in self.node_selector.items():
            yield _SELECTOR / key, {"key": key, "operator": "In", "values": [value]}

    def _expressions(self) -> Iterator[tuple[FieldPath, Term]]:
        for index in range(len(self.terms or [])):
            yield from self._gpu_expressions(index)


def _is_about_gpus(expression: Term) -> bool:
    return is_gpu_label(expression.get("key") or "")


def _rest(term: Term) -> list[Any]:
    """The conditions of a term on the node itself, sorted, so that they can be compared."""
    expressions = [item for item in term.get("matchExpressions") or [] if not _is_about_gpus(item)]
    fields = term.get("matchFields") or []
    return sorted([*map(_comparable, expressions), *(f"field {_comparable(item)}" for item in fields)])


def _comparable(expression: Term) -> str:
    """An expression as text that does not depend on the order of its values."""
    return repr(sorted({**expression, "values": sorted(expression.get("values") or [])}.items()))


def _translate(path: FieldPath, expression: Term, subject: Subject) -> Predicate:
    key, operator, values = expression["key"], expression.get("operator"), expression.get("values") or []
    if operator not in _OPERATORS:
        raise ConstraintError(path, f"{shown(operator)} is not an operator; supported: {', '.join(_OPERATORS)}")
    if operator in ("Exists", "DoesNotExist") and values:
        raise ConstraintError(path, f"{operator} takes no values")
    if operator in ("In", "NotIn") and not values:
        raise ConstraintError(path, f"{operator} needs at least one value")
    if operator in ("Gt", "Lt") and not (len(values) == 1 and _INTEGER.fullmatch(values[0])):
        raise ConstraintError(path, f"{operator} needs exactly one whole number")
    for value in values:
        if not is_label_value(value):
            raise ConstraintError(
                path, f'{shown(value)} cannot be the value of a label: at most 63 letters, digits, "-", "_", "."'
            )
    try:
        return translate(key, operator, values, subject)
    except UntranslatableError as error:
        subject_of_reason = "" if path[-1] == key else f"{key} "
        raise ConstraintError(path, f"{subject_of_reason}{error}", shared=isinstance(error, SharedGPUError)) from error


def _remove_affinity(editor: Editor) -> None:
    """Remove the required affinity, and its parents that are empty then."""
    path = _AFFINITY
    while len(path) > len(SPEC) + 1 and len(lookup(editor.document, path[:-1])) == 1:
        path = FieldPath(path[:-1])
    editor.remove(path)
