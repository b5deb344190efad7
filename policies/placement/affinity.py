"""Node affinity: what is required of a pod's node, AND-ed into what the pod says itself.

Terms of node affinity are OR-ed: a term that is added widens what it should narrow. So a requirement goes into every
term that there is, and alternatives multiply the terms.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.kubernetes.node_requirements import ALWAYS, Alternatives, Conjunction, NodeRequirement, both, can_hold
from policies.kubernetes.nodes import MOST_EXPRESSIONS, MOST_VALUES, REQUIRED, SelectionSize
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.pods import SPEC
from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.pods import Pod
    from policies.patch import Editor

__all__ = ["MOST_TERMS", "Contradiction", "TooManyTermsError", "contradiction", "require", "without_requirements"]

MOST_TERMS = 200
"""Terms that alternatives multiply a pod's terms to."""

_SELECTOR = SPEC / "nodeSelector"
_TERMS = FieldPath([*SPEC, *REQUIRED, "nodeSelectorTerms"])
_HOSTNAME = "kubernetes.io/hostname"
_NEVER: Alternatives = ((NodeRequirement(_HOSTNAME, "Exists"), NodeRequirement(_HOSTNAME, "DoesNotExist")),)
"""A branch that no node meets. A term without expressions says the same, but would have to replace the pod's own."""

_Branch = tuple[NodeRequirement, ...]
_Condition = tuple[FieldPath, str, NodeRequirement]
"""Where it is, its text there, what it requires."""


class TooManyTermsError(ValueError):
    """A selector or affinity that is or would become too large; the text continues `path`."""

    def __init__(self, path: FieldPath, sentence: str) -> None:
        self.path = path
        super().__init__(sentence)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A condition of the pod's own, and a requirement that no node can meet as well."""

    path: FieldPath
    condition: str
    """The condition as text: `nvidia.com/gpu.product: Tesla-T4` in a selector, `... In [Tesla-T4]` in a term."""
    requirement: NodeRequirement


def require(alternatives: Alternatives, edits: Editor) -> None:
    """Restrict the edited pod to nodes that it selects already and that meet one of the alternatives.

    What the pod's own conditions imply is not written again, so that a second time changes nothing. One alternative
    that gives each of its labels one value becomes entries of the node selector, all else required node affinity.

    Args:
        alternatives: what is required of the node.
        edits: gets the changes; the pod's conditions are read as they have become there.

    Raises:
        TooManyTermsError: there would be more than MOST_TERMS terms, or there is more than can be compared in time.
    """
    if () in alternatives:
        return
    own = _Own.read(edits.document["spec"])
    wanted = _unmet(both(alternatives, ALWAYS) or _NEVER, own.given((), alternatives))
    by_term = {place: _unmet(wanted, own.given(term, wanted)) for place, term in own.live.items()}
    unmet = {place: branches for place, branches in by_term.items() if () not in branches}
    if () in wanted or (own.terms is not None and not unmet):
        return
    if len(wanted) == 1 and all(_is_entry(item) and item.key not in own.selector for item in wanted[0]):
        _select(wanted[0] if own.terms is None else _any_of(unmet), edits)
    elif own.terms is None:
        _check_terms(len(wanted))
        edits.add(_TERMS, [{"matchExpressions": _expressions(branch)} for branch in wanted])
    else:
        _multiply(own.terms, unmet, edits)


def without_requirements(spec: Object, alternatives: Alternatives) -> Object:
    """A pod's spec without the conditions that `require` writes for these alternatives.

    They are entries of the node selector, and the last expressions of each term. Terms at the end that are then equal to
    one before them are the copies for further alternatives. The pod's own conditions keep their places.
    """
    written = {item for branch in both(alternatives, ALWAYS) or _NEVER for item in branch}
    changed = dict(spec)
    if labels := spec.get("nodeSelector"):
        changed["nodeSelector"] = {
            key: value for key, value in labels.items() if NodeRequirement(key, "In", (value,)) not in written
        }
    terms: list[dict[str, Any]] = lookup(spec, (*REQUIRED, "nodeSelectorTerms")) or []
    if not terms:
        return changed
    own = [_without_last(term, written) for term in terms]
    affinity, required = lookup(spec, REQUIRED[:-1]), lookup(spec, REQUIRED)
    if any(term and not left for term, left in zip(terms, own, strict=True)):
        # This term, and with it all of them together, requires nothing else.
        affinity = {key: value for key, value in affinity.items() if key != REQUIRED[-1]}
    else:
        affinity = {**affinity, REQUIRED[-1]: {**required, "nodeSelectorTerms": _without_copies(own)}}
    changed["affinity"] = {**spec["affinity"], "nodeAffinity": affinity}
    return changed


def contradiction(pod: Pod, alternatives: Alternatives) -> Contradiction | None:
    """The pod's own condition that excludes every alternative; None if a node can meet both.

    None where some node could, and where the pod's conditions or the alternatives are impossible by themselves.

    Raises:
        TooManyTermsError: there is more than can be compared in time.
    """
    own = _Own.read(pod.spec)
    wanted = both(alternatives, ALWAYS)
    terms = {None: ()} if own.terms is None else own.live
    if not wanted or not terms:
        return None
    if any(own.given(term, wanted).can_hold(branch) for term in terms.values() for branch in wanted):
        return None
    selector = own.given((), wanted)
    branch = next((branch for branch in wanted if selector.can_hold(branch)), wanted[0])
    return _conflict(list(own.conditions(next(iter(terms)))), branch)


@dataclass(frozen=True, slots=True)
class _Own:
    """The conditions that a pod has already."""

    selector: Mapping[str, NodeRequirement]
    terms: Sequence[Mapping[str, Any]] | None
    """None where the pod has no required node affinity; one without terms matches nothing."""
    live: Mapping[int, _Branch]
    """The label requirements of terms that some node could meet, by place."""

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> _Own:
        _check_size(spec)
        labels, required = spec.get("nodeSelector") or {}, lookup(spec, REQUIRED)
        terms: list[dict[str, Any]] | None = None if required is None else required.get("nodeSelectorTerms") or []
        selector = {key: NodeRequirement(key, "In", (value,)) for key, value in labels.items()}
        own = cls(selector, terms, {})
        readable = {place: term for place, item in enumerate(terms or []) if (term := _read(item)) is not None}
        live = {place: term for place, term in readable.items() if own.given(term, ()).can_hold()}
        return cls(selector, terms, live)

    def given(self, term: _Branch, alternatives: Alternatives) -> Conjunction:
        """The requirements of the selector and a term on labels that the term or the alternatives name.

        The rest of the selector can always hold, and has nothing to do with them.
        """
        keys = {item.key for branch in (term, *alternatives) for item in branch}
        return Conjunction((*term, *(self.selector[key] for key in keys if key in self.selector)))

    def conditions(self, place: int | None) -> Iterator[_Condition]:
        """All conditions of the selector and of the term at `place`, if any."""
        for key, item in self.selector.items():
            yield _SELECTOR / key, printable(f"{key}: {item.values[0]}"), item
        if place is not None:
            for position, item in enumerate(self.live[place]):
                yield _TERMS / place / "matchExpressions" / position, str(item), item


def _read(term: Mapping[str, Any]) -> _Branch | None:
    """The label requirements of a term; None where it matches nothing, being empty or malformed.

    Source: policies.kubernetes.nodes.
    """
    expressions, field_expressions = term.get("matchExpressions") or [], term.get("matchFields") or []
    if not expressions and not field_expressions:
        return None
    for expression in field_expressions:
        if expression.get("operator") not in ("In", "NotIn") or len(expression.get("values") or []) != 1:
            return None
    requirements = [NodeRequirement.read(expression) for expression in expressions]
    known = tuple(requirement for requirement in requirements if requirement is not None)
    return known if len(known) == len(requirements) else None


def _without_last(term: Mapping[str, Any], written: Container[NodeRequirement]) -> dict[str, Any]:
    """A term without trailing expressions that are among these requirements, and without empty fields."""
    expressions = list(term.get("matchExpressions") or [])
    while expressions and NodeRequirement.read(expressions[-1]) in written:
        expressions.pop()
    return {key: value for key, value in {**term, "matchExpressions": expressions}.items() if value}


def _without_copies(terms: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Terms without the last ones that are equal to one before them."""
    texts = [json.dumps(term, sort_keys=True) for term in terms]
    counts = Counter(texts)
    while counts[texts[-1]] > 1:
        counts[texts.pop()] -= 1
    return list(terms[: len(texts)])


def _unmet(alternatives: Alternatives, given: Conjunction) -> Alternatives:
    """What is still to be required where `given` holds anyway; a branch is empty where nothing is.

    Where no alternative can hold, the first one is left: with it, `given` never holds, as it should be.
    """
    possible = [branch for branch in alternatives if given.can_hold(branch)] or alternatives[:1]
    return tuple(dict.fromkeys(tuple(item for item in branch if not given.implies(item)) for branch in possible))


def _any_of(unmet: Mapping[int, Alternatives]) -> _Branch:
    """Every requirement that some term leaves to be met."""
    return tuple(dict.fromkeys(item for branches in unmet.values() for branch in branches for item in branch))


def _select(branch: _Branch, edits: Editor) -> None:
    for item in branch:
        edits.add(_SELECTOR / item.key, item.values[0])


def _multiply(terms: Sequence[Mapping[str, Any]], unmet: Mapping[int, Alternatives], edits: Editor) -> None:
    """Combine terms with alternatives: the first in the term itself, the others in copies at the end.

    A term that is dead for all alternatives has been given the first one, rather than be taken away: what the user
    wrote stays readable in the pod, and no term is added for it.
    """
    copies = [
        {**terms[place], "matchExpressions": [*(terms[place].get("matchExpressions") or []), *_expressions(branch)]}
        for place, branches in unmet.items()
        for branch in branches[1:]
    ]
    if copies:
        _check_terms(len(terms) + len(copies))
    for place, branches in unmet.items():
        edits.extend(_TERMS / place / "matchExpressions", _expressions(branches[0]))
    edits.extend(_TERMS, copies)


def _conflict(conditions: Sequence[_Condition], branch: _Branch) -> Contradiction:
    """The first condition that excludes a requirement, else the first that does so together with others."""
    pairs = [(condition, item) for condition in conditions for item in branch if condition[2].key == item.key]
    both_can_hold = {item.key: can_hold(_on(item.key, conditions, branch)) for item in branch}
    guilty = [(condition, item) for condition, item in pairs if not both_can_hold[item.key]]
    (path, text, _), requirement = next(
        ((condition, item) for condition, item in guilty if not can_hold((condition[2], item))), guilty[0]
    )
    return Contradiction(path, text, requirement)


def _on(key: str, conditions: Sequence[_Condition], branch: _Branch) -> Iterator[NodeRequirement]:
    return (item for item in (*(own for _, _, own in conditions), *branch) if item.key == key)


def _is_entry(requirement: NodeRequirement) -> bool:
    return requirement.operator == "In" and len(requirement.values) == 1


def _expressions(branch: _Branch) -> list[dict[str, Any]]:
    return [requirement.expression() for requirement in branch]


def _check_terms(count: int) -> None:
    if count > MOST_TERMS:
        raise TooManyTermsError(_TERMS, f"would have {count} terms, and {MOST_TERMS} are the most that a pod is given")


def _check_size(spec: Mapping[str, Any]) -> None:
    """Refuse what takes longer than others can wait."""
    size = SelectionSize.of(spec)
    _check(_SELECTOR, size.labels, "labels", MOST_EXPRESSIONS)
    _check(_TERMS, size.terms, "terms", MOST_EXPRESSIONS)
    _check(_TERMS, size.expressions, "expressions", MOST_EXPRESSIONS)
    _check(_TERMS, size.values, "values in its expressions", MOST_VALUES)


def _check(path: FieldPath, count: int, what: str, most: int) -> None:
    if count > most:
        raise TooManyTermsError(path, f"has {count} {what}, and {most} can be judged in time")
