"""Remedies for pods that a changed product label keeps off their nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.kubernetes.nodes import REQUIRED, labels_of
from policies.kubernetes.paths import items_at, lookup, mapping_at, replace_at
from policies.nvidia.products import Product
from policies.outcome import Outcome, compare_fits
from policies.phrases import format_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.outcome import FitComparison, Situation, Subject
    from policies.plan.prediction import NodeChange

__all__ = ["label_remedies"]

_NewValues = dict[tuple[str, str], str]
"""The new values of labels by name and former value."""


def label_remedies(
    fits: Iterable[FitComparison], before: Situation, after: Situation, nodes: Sequence[NodeChange]
) -> dict[str, str]:
    """The remedies for lost pods that fit with the new value of a product label, by subject.

    GPU Feature Discovery adds `-SHARED` to the product of GPUs that are shared, and removes it when they are not.

    Args:
        fits: The comparisons of the plan.
        before: The cluster as it is.
        after: The cluster as it would be.
        nodes: The nodes that change.
    """
    new_values: _NewValues = {}
    for node in nodes:
        old, new = (_labels(node.node, each) for each in (before, after))
        new_values |= {(name, value): new[name] for name, value in old.items() if _is_shared_anew(name, value, new)}
    lost = [each for each in fits if each.outcome is Outcome.LOST and each.subject.is_pod] if new_values else []
    changed = {node.node for node in nodes}
    rewritten: list[Subject] = []
    texts = {}
    for each in lost:
        spec = mapping_at(each.subject.document, ("spec",))
        used: _NewValues = {}
        new_spec = _with_values(spec, new_values, used)
        if not used:
            continue
        rewritten.append(replace(each.subject, document={**each.subject.document, "spec": new_spec}))
        labels = format_list([f"{name}: {value}" for (name, _), value in used.items()])
        condition = " if they may get shares" if any(Product.parse(each).shared for each in used.values()) else ""
        kept = sorted(changed & each.before.nodes)
        leave = "leave as many of " + format_list(kept, 3) + " as they are as its pods need"
        if len(kept) == 1:
            leave = f"leave {kept[0]} as it is"
        texts[each.subject.label] = f"write {labels} in its pods{condition}, or {leave}"
    possible = compare_fits(rewritten, after, after)
    return {each.subject.label: texts[each.subject.label] for each in possible if each.after.is_possible}


def _labels(node: str, situation: Situation) -> Mapping[str, str]:
    found = situation.view.get("Node", node)
    return labels_of(found) if isinstance(found, dict) else {}


def _is_shared_anew(name: str, value: str, new: Mapping[str, str]) -> bool:
    """True if a product label says of the same GPU that it is shared now, or that it is not any more."""
    if not name.endswith(".product") or new.get(name, value) == value:
        return False
    old, later = Product.parse(value), Product.parse(new[name])
    return replace(old, shared=later.shared) == later


def _with_values(spec: Mapping[str, Any], new_values: _NewValues, used: _NewValues) -> dict[str, Any]:
    """A pod's spec with new values in its node selector and affinity; adds them to `used`."""

    def value_of(name: str, value: str) -> str:
        if (name, value) in new_values:
            used[name, value] = new_values[name, value]
        return new_values.get((name, value), value)

    found = dict(spec)
    if selector := mapping_at(spec, ("nodeSelector",)):
        found["nodeSelector"] = {name: value_of(name, value) for name, value in selector.items()}
    terms = (*REQUIRED, "nodeSelectorTerms")
    for number, term in enumerate(items_at(spec, terms)):
        for index, each in enumerate(items_at(term, ("matchExpressions",))):
            if lookup(each, ("operator",)) == "In" and (values := items_at(each, ("values",))):
                new = [value_of(each.get("key"), value) for value in values]
                found = replace_at(found, (*terms, number, "matchExpressions", index, "values"), new)
    return found
