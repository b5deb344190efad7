"""Misspelt selectors: labels in a pod's node selector and affinity that are similar to those of nodes."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.fleet.gpu_nodes import gpu_nodes
from policies.kubernetes.names import closest, format_list, shown
from policies.kubernetes.nodes import REQUIRED
from policies.kubernetes.objects import FieldPath, items_at, lookup
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import CLOUD_LABELS, PRODUCT_LABEL, VENDOR_PREFIX
from policies.nvidia.product_proposals import propose_labels
from policies.nvidia.products import GKE_ACCELERATORS
from policies.placement.wish_labels import products_of_cluster
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.kubernetes.pods import Pod
    from policies.kubernetes.view import ClusterView


_PRODUCT = ".product"
_MEMORY = ".memory"
_WORDS = (".family", ".sharing-strategy", ".mode", ".present", ".capable", ".shared")
"""Endings of labels whose values are words: those of others are numbers, versions and names that may be right."""
_LIKE_KEY = 0.85
_NEAR = 0.05
"""Maximum difference of an amount of memory from that of a GPU, as a fraction."""
_MEBI_PER_GIBI = 1024
_MOST_NAMED = 3
_MOST_LISTED = 10
"""Values of one expression that are replaced together."""


class _Condition(NamedTuple):
    """A value that a node must have for a label, or one of several."""

    key: str
    values: tuple[str, ...]
    path: FieldPath


@PODS.rule(
    "GA409",
    "A pod must select nodes by labels and values that GPU nodes have",
    default=Severity.WARN,
    remedy="compare with the labels of the nodes",
    source="github.com/NVIDIA/k8s-device-plugin internal/lm/resource.go newResourceLabeler, internal/lm/nvml.go NewDeviceLabeler, "
    "newVersionLabeler",
)
def existing_labels(
    pod: Pod, view: ClusterView, *, is_converted: bool = False, is_matched: bool = False
) -> Iterator[Problem]:
    """No node has the label or the value, but one has a similar one.

    The pod would stay Pending, and the scheduler would only say that no node matched. The label proposed is always one
    of the same GPU: another model, memory or form factor, or the same GPU shared or divided otherwise, is named as such.
    GPUs that are spelled right and that the cluster lacks are not reported, because such a node may come later.
    """
    # Conversion compares values with devices, so they are of interest only if no device matches.
    conditions = [
        each
        for each in _conditions(pod.spec)
        if each.key in CLOUD_LABELS
        or (each.key.startswith(VENDOR_PREFIX) and not (is_matched and _describes_gpus(each.key)))
    ]
    seen = view.derive(_seen_labels_and_devices if is_converted else _seen_labels) if conditions else None
    if seen is None or not seen.keys:
        return
    for condition in conditions:
        meant = seen.similar(condition)
        if meant is not None:
            yield Problem(condition.path, *meant)


def _conditions(spec: Mapping[str, Any]) -> Iterator[_Condition]:
    selector = spec.get("nodeSelector")
    for key, value in selector.items() if isinstance(selector, dict) else ():
        yield _Condition(str(key), (str(value),), FieldPath(("spec", "nodeSelector", key)))
    terms = FieldPath(("spec", *REQUIRED, "nodeSelectorTerms"))
    for number, term in enumerate(items_at({"spec": spec}, terms)):
        for index, expression in enumerate(items_at(term, ("matchExpressions",))):
            values = tuple(map(str, items_at(expression, ("values",))))
            if lookup(expression, ("operator",)) == "In" and values:
                path = terms / number / "matchExpressions" / index / "values"
                yield _Condition(str(lookup(expression, ("key",))), values, path / 0 if len(values) == 1 else path)


def _describes_gpus(key: str) -> bool:
    # Few pods select nodes by a label that no node has.
    from policies.nvidia.labels import is_gpu_label

    return is_gpu_label(key)


@dataclass(frozen=True, slots=True)
class _SeenLabels:
    """The labels of GPU nodes under `nvidia.com/`, and those by which clouds name GPUs."""

    keys: frozenset[str]
    values: Mapping[str, frozenset[str]]
    """By label, of those whose values are compared."""

    def similar(self, condition: _Condition) -> tuple[str, str] | None:
        """The problem and remedy of a condition; None if it matches a node or is similar to nothing."""
        key, values, _ = condition
        if key in self.keys:
            if key not in self.values or not self.values[key].isdisjoint(values):
                return None
            verb = "is" if len(values) == 1 else "are"
            text = f"{format_list([shown(value) for value in values], _MOST_NAMED)} {verb} the {key} of no node"
            return self._listed_instead(values, key, text) or next(
                filter(None, (self._instead(key, value, text) for value in values)), None
            )
        if key in CLOUD_LABELS:
            proposal = propose_labels(values[0], self.values.get(PRODUCT_LABEL, ()))
            if proposal is None or proposal.others:
                return None
            names = " or ".join(map(shown, proposal.names[:_MOST_NAMED]))
            return f"no node has the label {key}", f"write {PRODUCT_LABEL}: {names}{proposal.note}"
        meant = None if _describes_gpus(key) else closest(key, self.keys, likeness=_LIKE_KEY)
        if meant is None or self.values.get(meant, frozenset(values)).isdisjoint(values):
            return None
        return f"no node has the label {key}", f"write {meant}"

    def _listed_instead(self, values: tuple[str, ...], key: str, text: str) -> tuple[str, str] | None:
        """The message of several values, and the list to write instead; None if nodes have none that is meant."""
        if not 1 < len(values) <= _MOST_LISTED or not key.endswith(_PRODUCT):
            return None
        proposals = [propose_labels(value, sorted(self.values[key])) for value in values]
        here = [each for each in proposals if each is not None and not each.others]
        if not here:
            return None
        listed: dict[str, None] = {}
        for value, proposal in zip(values, proposals, strict=True):
            # A GPU that the cluster lacks may come later, under the only name that it has.
            is_clear = proposal is not None and proposal.names and (not proposal.others or len(proposal.names) == 1)
            listed |= dict.fromkeys(proposal.names if proposal is not None and is_clear else (value,))
        notes = dict.fromkeys(each.note for each in here)
        return text, f"write [{', '.join(map(shown, listed))}]{''.join(notes)}"

    def _instead(self, key: str, value: str, text: str) -> tuple[str, str] | None:
        """The message that continues a text on a value, and the remedy."""
        there = sorted(self.values[key])
        if key in CLOUD_LABELS or key.endswith(_PRODUCT):
            proposal = propose_labels(value, there)
            if proposal is None or (key in CLOUD_LABELS and (proposal.others or value in GKE_ACCELERATORS)):
                return None  # A node of another machine type may come later.
            return proposal.message(text), proposal.remedy()
        if key.endswith(_MEMORY):
            remedy = _memory(value, there)
        else:
            remedy = f"write {shown(meant)}" if (meant := closest(value, there)) else None
        return (text, remedy) if remedy else None


def _memory(value: str, there: list[str]) -> str | None:
    """A remedy with the memory of a GPU that is close to an amount in MiB or GiB; None if there is none."""
    if not value.isdecimal():
        return None
    sizes = [int(size) for size in there if size.isdecimal()]
    for wanted in (int(value[:9]), int(value[:9]) * _MEBI_PER_GIBI):
        near = min(sizes, key=lambda size: abs(size - wanted), default=0)
        if abs(near - wanted) <= near * _NEAR:
            return f'write "{near}": the label is in MiB, and as the driver reports it'
    return None


def _seen_labels_and_devices(view: ClusterView) -> _SeenLabels:
    """The labels that the pods of a conversion can select: those of nodes, and the products of devices."""
    seen, products = view.derive(_seen_labels), frozenset(products_of_cluster(view))
    if not products:
        return seen
    return _SeenLabels(seen.keys | {PRODUCT_LABEL}, {**seen.values, PRODUCT_LABEL: products})


def _seen_labels(view: ClusterView) -> _SeenLabels:
    nodes = gpu_nodes(view)
    keys: set[str] = set()
    values: defaultdict[str, set[str]] = defaultdict(set)
    for traits in () if nodes is UNKNOWN else nodes.traits:
        keys |= traits.label_names
        for key, value in traits.labels:
            if key in CLOUD_LABELS or key.endswith((_PRODUCT, _MEMORY, *_WORDS)):
                values[key].add(value)
    return _SeenLabels(frozenset(keys | values.keys()), {key: frozenset(found) for key, found in values.items()})
