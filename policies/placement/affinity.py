"""Node affinity: requirements on a pod's node, AND-ed with the pod's own conditions.

Terms of node affinity are OR-ed, so an added term would allow more nodes. A requirement is therefore added to every
term, and alternatives multiply the terms.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import printable
from policies.kubernetes.nodes import MOST_EXPRESSIONS, MOST_VALUES, REQUIRED, SelectionSize, required_terms
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.pods import SPEC
from policies.kubernetes.selectors import (
    ALWAYS,
    Alternatives,
    Conjunction,
    NodeRequirement,
    both,
    can_hold,
    term_requirements,
)

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.pods import Pod
    from policies.rules.patch import Editor


MOST_TERMS = 200
"""Maximum terms of a pod after alternatives multiply them."""

_SELECTOR = SPEC / "nodeSelector"
_TERMS = FieldPath([*SPEC, *REQUIRED, "nodeSelectorTerms"])
_HOSTNAME = "kubernetes.io/hostname"
_NEVER: Alternatives = ((NodeRequirement(_HOSTNAME, "Exists"), NodeRequirement(_HOSTNAME, "DoesNotExist")),)
"""A branch that no node meets, to be added to the pod's own terms."""

_Branch = tuple[NodeRequirement, ...]
_Condition = tuple[FieldPath, str, NodeRequirement]
"""Path, text, and requirement of a condition."""


class TooManyTermsError(ValueError):
    """A selector or affinity that is or would become too large; the text continues `path`."""

    def __init__(self, path: FieldPath, sentence: str) -> None:
        self.path = path
        super().__init__(sentence)


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A condition of the pod, and a requirement that no node can meet together with it."""

    path: FieldPath
    condition: str
    """The condition as text: `nvidia.com/gpu.product: Tesla-T4` in a selector, `... In [Tesla-T4]` in a term."""
    requirement: NodeRequirement


def require(alternatives: Alternatives, edits: Editor) -> None:
    """Restrict the edited pod to nodes that it selects already and that meet one of the alternatives.

    Requirements that the pod's own conditions imply are not written, so that a second call changes nothing. A single
    alternative with one value for each label becomes entries of the node selector; others become node affinity.

    Args:
        alternatives: The requirements on the node.
        edits: The edited pod; its document has the pod's conditions, and gets the changes.

    Raises:
        TooManyTermsError: The pod has, or would get, too many terms.
    """
    if () in alternatives:
        return
    own = _Own.read(edits.document["spec"])
    wanted = _unmet(both(alternatives, ALWAYS) or _NEVER, own.given((), alternatives))
    by_term = {place: _unmet(wanted, own.given(term, wanted)) for place, term in own.live.items()}
    unmet = {place: branches for place, branches in by_term.items() if () not in branches}
    if () in wanted or (own.terms is not None and not unmet):
        return
    if len(wanted) == 1 and all(
        item.operator == "In" and len(item.values) == 1 and item.key not in own.selector for item in wanted[0]
    ):
        # With terms, every requirement that some term does not imply.
        lacking = [item for branches in unmet.values() for branch in branches for item in branch]
        for item in wanted[0] if own.terms is None else dict.fromkeys(lacking):
            edits.add(_SELECTOR / item.key, item.values[0])
    elif own.terms is None:
        _check_terms(len(wanted))
        edits.add(_TERMS, [{"matchExpressions": _expressions(branch)} for branch in wanted])
    else:
        _multiply(own.terms, unmet, edits)


def without_requirements(spec: Object, alternatives: Alternatives) -> Object:
    """A pod's spec without the conditions that `require` writes for these alternatives.

    They are entries of the node selector, and the last expressions of each term. Last terms that are then equal to an
    earlier one are its copies for further alternatives. The pod's own conditions keep their places.
    """
    written = {item for branch in both(alternatives, ALWAYS) or _NEVER for item in branch}
    changed = dict(spec)
    if labels := spec.get("nodeSelector"):
        changed["nodeSelector"] = {
            key: value for key, value in labels.items() if NodeRequirement(key, "In", (value,)) not in written
        }
    terms = required_terms(spec)
    if not terms:
        return changed
    own = [_without_last(term, written) for term in terms]
    affinity, required = lookup(spec, REQUIRED[:-1]), lookup(spec, REQUIRED)
    if any(term and not left for term, left in zip(terms, own, strict=True)):
        # This term requires nothing else, so all terms together require nothing else.
        affinity = {key: value for key, value in affinity.items() if key != REQUIRED[-1]}
    else:
        affinity = {**affinity, REQUIRED[-1]: {**required, "nodeSelectorTerms": _without_copies(own)}}
    changed["affinity"] = {**spec["affinity"], "nodeAffinity": affinity}
    return changed


def contradiction(pod: Pod, alternatives: Alternatives) -> Contradiction | None:
    """The pod's own condition that excludes every alternative; None if a node can meet both.

    None also if the pod's conditions or the alternatives alone exclude every node.

    Raises:
        TooManyTermsError: The pod has too many terms to compare them in time.
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
    """None if the pod has no required node affinity; an empty list matches no node."""
    live: Mapping[int, _Branch]
    """The label requirements of terms that some node could meet, by index."""

    @classmethod
    def read(cls, spec: Mapping[str, Any]) -> _Own:
        _check_size(spec)
        labels = spec.get("nodeSelector") or {}
        terms = None if lookup(spec, REQUIRED) is None else required_terms(spec)
        selector = {key: NodeRequirement(key, "In", (value,)) for key, value in labels.items()}
        own = cls(selector, terms, {})
        readable = {
            place: term for place, item in enumerate(terms or []) if (term := term_requirements(item)) is not None
        }
        live = {place: term for place, term in readable.items() if own.given(term, ()).can_hold()}
        return cls(selector, terms, live)

    def given(self, term: _Branch, alternatives: Alternatives) -> Conjunction:
        """The requirements of the selector and a term on labels that the term or the alternatives name.

        Other entries of the selector can always hold and do not matter here.
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


def _without_last(term: Mapping[str, Any], written: Container[NodeRequirement]) -> dict[str, Any]:
    """A term without trailing expressions that are among these requirements, and without empty fields."""
    expressions = list(term.get("matchExpressions") or [])
    while expressions and NodeRequirement.read(expressions[-1]) in written:
        expressions.pop()
    return {key: value for key, value in {**term, "matchExpressions": expressions}.items() if value}


def _without_copies(terms: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Terms without last ones that are equal to an earlier one."""
    texts = [json.dumps(term, sort_keys=True) for term in terms]
    counts = Counter(texts)
    while counts[texts[-1]] > 1:
        counts[texts.pop()] -= 1
    return list(terms[: len(texts)])


def _unmet(alternatives: Alternatives, given: Conjunction) -> Alternatives:
    """The alternatives without requirements that `given` implies; a branch may be empty then.

    If no alternative can hold together with `given`, only the first one is returned, which no node meets.
    """
    possible = [branch for branch in alternatives if given.can_hold(branch)] or alternatives[:1]
    return tuple(dict.fromkeys(tuple(item for item in branch if not given.implies(item)) for branch in possible))


def _multiply(terms: Sequence[Mapping[str, Any]], unmet: Mapping[int, Alternatives], edits: Editor) -> None:
    """Combine terms with alternatives: the first in the term itself, the others in copies at the end.

    A term that no alternative can meet gets the first one and is not removed: the pod keeps what its author wrote.
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
    """The first condition that excludes a requirement, else the first that does with other conditions."""
    pairs = [(condition, item) for condition in conditions for item in branch if condition[2].key == item.key]
    everything = [*(own for _, _, own in conditions), *branch]
    both_can_hold = {item.key: can_hold(each for each in everything if each.key == item.key) for item in branch}
    guilty = [(condition, item) for condition, item in pairs if not both_can_hold[item.key]]
    (path, text, _), requirement = next(
        ((condition, item) for condition, item in guilty if not can_hold((condition[2], item))), guilty[0]
    )
    return Contradiction(path, text, requirement)


def _expressions(branch: _Branch) -> list[dict[str, Any]]:
    return [requirement.expression() for requirement in branch]


def _check_terms(count: int) -> None:
    if count > MOST_TERMS:
        raise TooManyTermsError(_TERMS, f"would have {count} terms, and at most {MOST_TERMS} are written into a pod")


def _check_size(spec: Mapping[str, Any]) -> None:
    """Raise an error if a comparison would take too long."""
    size = SelectionSize.of(spec)
    for path, count, things, most in (
        (_SELECTOR, size.labels, "labels", MOST_EXPRESSIONS),
        (_TERMS, size.terms, "terms", MOST_EXPRESSIONS),
        (_TERMS, size.expressions, "expressions", MOST_EXPRESSIONS),
        (_TERMS, size.values, "values in its expressions", MOST_VALUES),
    ):
        if count > most:
            raise TooManyTermsError(path, f"has {count} {things}, and at most {most} can be compared in time")
