"""Disruptions: pods and claims that hold what a change takes away, and remedies for lost ones."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from policies.admission import controller_label
from policies.analyses.migrate import converting_namespace
from policies.analyses.plan.prediction import predict
from policies.devices.resource_claims import Claim
from policies.fleet import holds_gpu
from policies.fleet.operands import gpu_cluster
from policies.kubernetes.names import format_list
from policies.kubernetes.nodes import REQUIRED, labels_of, tolerates_taint
from policies.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    has_ended,
    items_at,
    lookup,
    mapping_at,
    mappings_at,
    name_of,
    namespace_of,
    replace_at,
)
from policies.kubernetes.view import ChangedView
from policies.nvidia.identifiers import DRIVER
from policies.nvidia.mig import parse_resource
from policies.nvidia.mig_products import is_capable
from policies.nvidia.pod_conditions import requested_names
from policies.nvidia.products import Product
from policies.nvidia.releases import NVIDIAFeature
from policies.outcome import Outcome, compare_fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.analyses.plan.node_changes import NodeChange
    from policies.analyses.plan.prediction import Prediction
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView, Key
    from policies.outcome import FitComparison, Situation, Subject


_EVICTING = "NoExecute"


@dataclass(frozen=True, slots=True)
class Disruption:
    """A pod or claim that cannot go on as it is."""

    node: str
    name: str
    """`pod team-a/train`, or `ResourceClaim team-a/gpu` if no pod uses it."""
    workload: str
    """The controller of the pod, `ReplicaSet web-5d8f`; empty if it has none."""
    why: str
    """A clause without a full stop."""
    remedy: str
    """The remedy, an imperative without a full stop."""


def disruptions(before: ClusterView, after: ClusterView, nodes: Sequence[NodeChange]) -> list[Disruption]:
    """The pods that a change ends or that hold what it reconfigures, by node and name.

    Pods go on if only the device plugin starts again: the kubelet keeps what it has allocated.
    """
    interrupted = {each.node: each.interrupts for each in nodes if each.interrupts}
    pods, evicting = _pods_by_node(before), _evicting_nodes(before, after)
    found = [each for node, why in interrupted.items() for each in _holders(node, why, pods.get(node, ()), before)]
    for node, taints in evicting.items():
        for pod in pods.get(node, ()):
            tolerations = mappings_at(pod, ("spec", "tolerations"))
            taint = next((each for each in taints if not tolerates_taint(tolerations, each)), None)
            if taint is not None:
                value = f"={taint['value']}" if taint.get("value") else ""
                why = f"it does not tolerate the new taint {taint.get('key')}{value}:NoExecute"
                remedy = "add a toleration for it, or drain the node first"
            elif after.get("Node", node) is None:
                why, remedy = "its node is deleted", f"drain {node} first"
            else:
                continue
            name = f"pod {namespace_of(pod) or DEFAULT_NAMESPACE}/{name_of(pod)}"
            found.append(Disruption(node, name, controller_label(pod), why, remedy))
    unique = {(each.node, each.name): each for each in reversed(found)}
    return sorted(unique.values(), key=lambda each: (each.node, each.name))


def _pods_by_node(view: ClusterView) -> Mapping[str, Sequence[Object]]:
    found: defaultdict[str, list[Object]] = defaultdict(list)
    for pod in view.known_objects("Pod"):
        node = lookup(pod, ("spec", "nodeName"))
        if isinstance(node, str) and node and not has_ended(pod):
            found[node].append(pod)
    return found


def _holders(node: str, why: str, pods: Sequence[Object], view: ClusterView) -> Iterator[Disruption]:
    """The pods that hold GPUs of a node, and the claims that hold some for no pod."""
    remedy = f"drain {node} first"
    by_claim = view.derive(_claims_by_node).get(node, ())
    users = {(each.namespace or DEFAULT_NAMESPACE, pod) for each in by_claim for pod in each.consumer_names("pods")}
    for pod in pods:
        home = namespace_of(pod) or DEFAULT_NAMESPACE
        if (home, name_of(pod)) in users or holds_gpu(pod, view):
            yield Disruption(
                node, f"pod {home}/{name_of(pod)}", controller_label(pod), f"it holds GPUs, and {why}", remedy
            )
    for claim in by_claim:
        if not claim.consumers:
            name = f"ResourceClaim {claim.namespace or DEFAULT_NAMESPACE}/{claim.name}"
            yield Disruption(node, name, "", f"no pod uses it, it holds devices, and {why}", f"delete {name} first")


def _claims_by_node(view: ClusterView) -> Mapping[str, Sequence[Claim]]:
    """The claims that hold devices of NVIDIA's driver, by the pool, which is named like the node."""
    found: defaultdict[str, list[Claim]] = defaultdict(list)
    for document in view.known_objects("ResourceClaim"):
        claim = Claim(document)
        pools = {str(each.get("pool")) for each in claim.allocated_devices if each.get("driver") == DRIVER}
        for pool in pools:
            found[pool].append(claim)
    return found


def _evicting_nodes(before: ClusterView, after: ClusterView) -> dict[str, list[dict[str, Any]]]:
    """The nodes with new taints that end pods, and deleted nodes, with no taint."""
    found: dict[str, list[dict[str, Any]]] = {}
    for node in before.known_objects("Node"):
        name = name_of(node)
        changed = after.get("Node", name)
        if changed is node:
            continue
        if not isinstance(changed, dict):
            found[name] = []
            continue
        known = mappings_at(node, ("spec", "taints"))
        new = [
            each
            for each in mappings_at(changed, ("spec", "taints"))
            if each.get("effect") == _EVICTING and each not in known
        ]
        if new:
            found[name] = new
    return found


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


def cutover_remedies(
    fits: Iterable[FitComparison], objects: Mapping[Key, Object | None], before: Situation, prediction: Prediction
) -> dict[str, str]:
    """The remedies for lost subjects that a new GPUCluster serves in another way, by subject.

    Conversion makes claims of requests for resources, and DynamicMIG makes MIG devices for claims.
    """
    after = prediction.after
    cluster = gpu_cluster(after.view)
    lost = [each.subject for each in fits if each.outcome is Outcome.LOST]
    if cluster is None or gpu_cluster(before.view) is not None or not lost:
        return {}
    spaces = {
        each.namespace for each in lost if each.is_pod and any(map(parse_resource, requested_names(each.document)))
    }
    converting = {("Namespace", "", each): converting_namespace(each, after.view) for each in spaces}
    texts: dict[str, str] = {}

    def try_out(situation: Situation, beginning: str, ending: str) -> None:
        left = [each for each in lost if each.label not in texts and (not ending or each.namespace in spaces)]
        for each in compare_fits(left, situation, situation):
            if each.after.is_possible:
                texts[each.subject.label] = beginning + ending.format(each.subject.namespace)

    label = "label the namespace {} gpu-admission.io/dra: enabled, so that its pods use claims"
    try_out(_with_objects(prediction.with_held_devices(after), converting), "", label)
    node_labels = map(labels_of, before.view.known_objects("Node"))
    if all(each.label in texts for each in lost) or not any(map(is_capable, node_labels)):
        return texts
    name, gate, driver = name_of(cluster), NVIDIAFeature.DynamicMIG.name, mapping_at(cluster, ("spec", "draDriver"))
    driver = {**driver, "featureGates": {**mapping_at(driver, ("featureGates",)), gate: True}}
    dynamic = {**cluster, "spec": {**cluster["spec"], "draDriver": driver}}
    other = predict(before, {**objects, ("GPUCluster", "", name): dynamic}, after.settings)
    situation = other.with_held_devices(other.after)
    turn_on = f"write featureGates: {{{gate}: true}} in GPUCluster {name}, so that the DRA driver makes MIG devices for claims"
    try_out(situation, turn_on, "")
    try_out(_with_objects(situation, converting), f"{turn_on}, and ", label)
    return texts


def _with_objects(situation: Situation, objects: Mapping[Key, Object | None]) -> Situation:
    return situation._replace(view=ChangedView(situation.view, objects))


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
