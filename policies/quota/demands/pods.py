"""Pods: the devices that each piece of a pod requests, and those that it holds once it is bound."""

from __future__ import annotations

import marshal
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.devices.deviceclasses import class_remedy
from policies.devices.effort import Effort
from policies.devices.pod_groups import POD_GROUP, pod_group_name
from policies.fleet import extended_requests
from policies.fleet.gpu_nodes import narrows_gpus
from policies.kubernetes.names import shown
from policies.kubernetes.nodes import MOST_EXPRESSIONS, MOST_VALUES, REQUIRED, SelectionSize, required_terms
from policies.kubernetes.objects import lookup, mappings_at
from policies.kubernetes.pods import SPEC
from policies.kubernetes.quantities import ONE, pod_amounts
from policies.kubernetes.selectors import NodeRequirement, term_requirements
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import PRODUCT_LABEL
from policies.nvidia.mig import IMPLICIT_PREFIX, parse_resource
from policies.nvidia.products import Product
from policies.quota.demands.claims import ClaimDemands, demands_of_template
from policies.quota.demands.classes import classes
from policies.quota.demands.device_kinds import (
    BARE,
    NodeKinds,
    mig_product_label,
    node_kinds,
    published_kind,
    replica_kind,
    unpublished_kinds,
    unseen_gpu,
    unseen_slice,
)
from policies.rules.charges import OWN, UNSEEN, DeviceDemand, DeviceKind
from policies.rules.checks import Problem

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from policies.devices.pod_groups import PodGroup
    from policies.fleet.pod_claims import PodClaim
    from policies.kubernetes.objects import FieldPath
    from policies.kubernetes.pods import Pod
    from policies.kubernetes.selectors import Alternatives
    from policies.kubernetes.view import ClusterView
    from policies.nvidia.mig import GPUResource
    from policies.quota.demands.classes import Classes
    from policies.quota.demands.device_kinds import NodeKind
    from policies.rules.settings.choices import Quotas


_MOST_NAMED = 64
"""The most values of a label that a pod may list; with more, the list is ignored."""


@dataclass(frozen=True, slots=True)
class LabelRequirements:
    """Conditions on the labels of GPU Feature Discovery; other labels do not change the possible GPUs."""

    alternatives: Alternatives

    @classmethod
    def of(cls, spec: Mapping[str, Any]) -> LabelRequirements:
        """The requirements of a pod on its node.

        A pod whose requirements no node can ever meet is read as if it had none: if this reading differed from the
        scheduler's, a running pod would count as nothing. So is a pod with too many requirements to evaluate in time: it
        is charged the most.

        Source: k8s.io/component-helpers/scheduling/corev1/nodeaffinity.
        """
        size = SelectionSize.of(spec)
        if size.labels + size.terms + size.expressions > MOST_EXPRESSIONS or size.values > MOST_VALUES:
            return cls(((),))
        selector = spec.get("nodeSelector") or {}
        common = tuple(NodeRequirement(key, "In", (value,)) for key, value in selector.items() if narrows_gpus(key))
        if not lookup(spec, REQUIRED):
            return cls((common,))
        branches = dict.fromkeys((*common, *branch) for branch in _branches(spec))
        return cls(tuple(branches) or ((),))

    def allow(self, labels: Mapping[str, str]) -> bool:
        """True if a node with these labels meets them."""
        return any(all(each.holds(labels) for each in branch) for branch in self.alternatives)

    def values(self, keys: Collection[str]) -> frozenset[str] | None:
        """The values that one of the labels must have on a matching node; None if any value is allowed."""
        found: set[str] = set()
        for branch in self.alternatives:
            values = _values(branch, keys)
            if values is None:
                return None
            found |= values
        return frozenset(found) if 0 < len(found) <= _MOST_NAMED else None


def _values(branch: tuple[NodeRequirement, ...], keys: Collection[str]) -> set[str] | None:
    for key in keys:
        of_key = [each for each in branch if each.key == key]
        listed = [each.values for each in of_key if each.operator == "In"]
        if listed:
            return {value for value in listed[0] if all(each.holds({key: value}) for each in of_key)}
    return None


def _branches(spec: Mapping[str, Any]) -> Iterator[tuple[NodeRequirement, ...]]:
    """The conditions of each term on GPU labels; terms that match no node are left out."""
    for requirements in map(term_requirements, required_terms(spec)):
        if requirements is not None:
            yield tuple(each for each in requirements if narrows_gpus(each.key))


def most_held(pod: Pod) -> Mapping[str, int]:
    """The largest number of devices of each resource that a pod ever holds at once.

    Init containers pass theirs on. Requests of the pod as a whole are ignored: they are for cpu and memory.
    """
    spec = {key: value for key, value in pod.spec.items() if key not in ("resources", "overhead")}
    amounts = pod_amounts(spec)
    return {name: -(-amount // ONE) for name, amount in sorted(amounts.items()) if amount > 0 and name != "pods"}


@dataclass(frozen=True)
class ExtendedResources:
    """The devices that the containers of a pod request by extended resources."""

    pod: Pod
    priority_class: str
    view: ClusterView
    settings: Quotas

    @cached_property
    def demands(self) -> Mapping[str, DeviceDemand]:
        """The demands of a pod without a node, by resource."""
        found = {}
        for name, count in self._amounts.items():
            resource, known = parse_resource(name), self._classes.standing_for(name)
            if resource is None and not known:
                continue  # It gives no GPU.
            kinds = self._plugin_kinds(name) | self._class_kinds(known)
            named = self._named_kinds(resource, known, kinds)
            found[name] = (
                DeviceDemand(count, kinds, True, self.priority_class, self._unseen(resource, known, ""))
                if named is None
                else DeviceDemand(count, kinds | named, priority_class=self.priority_class)
            )
        return found

    def holdings(self, node: str, claimed: Collection[str] = ()) -> Mapping[str, DeviceDemand]:
        """The devices that a bound pod holds, by resource; the request if its node does not show the resource.

        Args:
            node: Its name.
            claimed: Resources to leave out, because a claim holds them.
        """
        found: dict[str, DeviceDemand] = {}
        for name, demand in self.demands.items():
            if name not in claimed:
                kinds = self._kinds_on(node, name)
                found[name] = (
                    DeviceDemand(demand.count, kinds, priority_class=demand.priority_class) if kinds else demand
                )
        return found

    def problems(self) -> Iterator[Problem]:
        """The problems of implicit names of DeviceClasses that do not exist."""
        names = (each for name in self._amounts for each in self._classes.standing_for(name))
        for name in filter(self._classes.is_missing, dict.fromkeys(names)):
            path = next(_places(self.pod, f"{IMPLICIT_PREFIX}{name}"), SPEC)
            text = f"there is no DeviceClass {shown(name)}, so its devices are unknown; whole GPUs are charged"
            yield Problem(path, text, class_remedy(name, self._classes, before=IMPLICIT_PREFIX))

    @cached_property
    def _amounts(self) -> Mapping[str, int]:
        """The amounts of extended resources that can give a GPU; most pods have none.

        While DeviceClasses are unknown, a resource of any name could. It is not charged then: if a class provides it, the
        scheduler makes a claim for it, and the claim is charged.
        """
        names = {each.name for each in extended_requests(self.pod.document, self.view) if not each.is_unlisted}
        return {name: count for name, count in most_held(self.pod).items() if name in names} if names else {}

    @cached_property
    def _classes(self) -> Classes:
        return self.view.derive(classes)

    @cached_property
    def _nodes(self) -> NodeKinds:
        known = self.view.derive(node_kinds)
        return NodeKinds({}) if known is UNKNOWN else known

    @cached_property
    def _required(self) -> LabelRequirements:
        return LabelRequirements.of(self.pod.spec)

    @cached_property
    def _allowed(self) -> frozenset[NodeKind] | None:
        """The kinds of nodes that the pod can be on; None for all."""
        if () in self._required.alternatives:
            return None
        return frozenset(kind for kind in {*self._nodes.all, BARE} if self._required.allow(dict(kind.labels)))

    def _plugin_kinds(self, name: str) -> frozenset[DeviceKind]:
        """The kinds of devices that device plugins advertise under a name."""
        nodes = self._nodes.all if self._allowed is None else self._allowed
        return frozenset(
            replica_kind(offer.device, offer.sharing, self.settings.weights)
            for kind in nodes
            for resource, offer in kind.offers
            if resource == name
        )

    def _class_kinds(self, names: tuple[str, ...]) -> frozenset[DeviceKind]:
        """The devices of classes on nodes that the pod can be on."""
        return frozenset(
            taken
            for name in names
            for group in self._classes.devices(name)
            if self._allowed is None or (on := self._nodes.with_devices(group)) is None or on & self._allowed
            if (taken := published_kind(group.first, None, self.settings)) is not None
        )

    def _kinds_on(self, node: str, name: str) -> frozenset[DeviceKind]:
        """The kinds of devices on a node under a name; DRA devices only if its device plugin has none."""
        kind = self._nodes.by_name.get(node)
        for resource, offer in () if kind is None else kind.offers:
            if resource == name:
                return frozenset({replica_kind(offer.device, offer.sharing, self.settings.weights)})
        return frozenset(
            taken
            for each in self._classes.standing_for(name)
            for group in self._classes.devices(each)
            if node in group.by_node or "" in group.by_node
            if (taken := published_kind(group.first, None, self.settings)) is not None
        )

    def _named_kinds(
        self, resource: GPUResource | None, known: tuple[str, ...], shown: frozenset[DeviceKind]
    ) -> frozenset[DeviceKind] | None:
        """The kinds of named products that are not shown; None if pod and classes name no product."""
        keys = (
            (PRODUCT_LABEL, mig_product_label(resource)) if resource is not None and resource.mig else (PRODUCT_LABEL,)
        )
        values = self._required.values(keys)
        if values is not None:
            absent = values - self._values_shown(resource, known, keys)
            return frozenset[DeviceKind]().union(*(self._unseen(resource, known, value) for value in sorted(absent)))
        if resource is not None or not all(each in self._classes for each in known):
            return None
        needs = [self._classes.necessary_conditions(each) for each in known]
        if any(need.products is None for need in needs):
            return None
        missing = frozenset[DeviceKind]().union(*(need.missing_kinds(self.view, shown) for need in needs))
        return unpublished_kinds(missing, self.view, None, self.settings)

    def _values_shown(
        self, resource: GPUResource | None, known: tuple[str, ...], keys: tuple[str, ...]
    ) -> frozenset[str]:
        """The label values of nodes that the pod can run on and that have the requested resource."""
        allowed = self._nodes.all if self._allowed is None else self._allowed
        having = {kind for kind in allowed if resource is not None and resource.name in dict(kind.offers)}
        for each in known:
            for group in self._classes.devices(each):
                having |= (self._nodes.with_devices(group) or frozenset()) & allowed
        return frozenset(value for kind in having for key, value in kind.labels if key in keys)

    def _unseen(self, resource: GPUResource | None, known: tuple[str, ...], label: str) -> frozenset[DeviceKind]:
        """The kinds of devices of a product that no node shows; of any product if the label is empty."""
        product = Product.parse(label)
        kinds: set[DeviceKind] = set()
        if resource is not None:
            profile = resource.profile or product.profile
            kinds.add(unseen_gpu(product.name) if profile is None else unseen_slice(profile, product.name))
        for each in known:
            need = self._classes.necessary_conditions(each)
            unseen = need.unseen(self.view, product.name) if each in self._classes else UNSEEN
            kinds |= unpublished_kinds(unseen, self.view, None, self.settings)
        # A node whose label names a MIG profile advertises nothing else.
        return frozenset(kind for kind in kinds if product.profile is None or kind.profile)


@dataclass(frozen=True, slots=True)
class PodDemands:
    """The devices that a pod requests."""

    pieces: Mapping[str, tuple[DeviceDemand, ...]] = field(default_factory=dict)
    """`OWN` for extended resources, and its claims from templates by their names in `spec.resourceClaims`; pieces without
    a GPU are left out."""
    group: PodGroup | None = None
    """The PodGroup with which the pod shares a claim."""
    shared: Mapping[str, tuple[DeviceDemand, ...]] = field(default_factory=dict)
    """The same for the claims that the pod shares with its group and that do not exist yet."""
    problems: tuple[Problem, ...] = ()
    """The missing objects that it names, and the resulting charge."""


def demands_of_pod(pod: Pod, claims: Sequence[PodClaim], view: ClusterView, settings: Quotas) -> PodDemands:
    """The devices that a pod without a node requests.

    Existing claims cost nothing here: a claim that it names by `resourceClaimName`, or one of its PodGroup, was charged
    when it was made. If the PodGroup is unknown, each claim from a template is charged when it is made, so that a claim
    that pods share is never charged for each of them.

    Args:
        pod: as it is stored, after all mutating webhooks.
        claims: its claims from templates, as `template_claims` returns them.
        view: the cluster, with nodes, classes and slices.
        settings: how quotas count.
    """
    extended = ExtendedResources(pod, priority_class_of(pod), view, settings)
    pieces: dict[str, tuple[DeviceDemand, ...]] = {OWN: tuple(extended.demands.values())}
    shared: dict[str, tuple[DeviceDemand, ...]] = {}
    problems = list(extended.problems())
    effort = Effort()
    known: dict[tuple[str, bool], ClaimDemands] = {}
    for claim in claims:
        if claim.kind == "ResourceClaim":
            continue
        if claim.may_be_shared:
            problems.append(_unknown_group(pod, claim))
            continue
        key = claim.object_name, claim.group is not None
        if key not in known:
            template = claim.document
            if template is None or template is UNKNOWN:
                known[key] = ClaimDemands(())
                problems.append(_missing_template(claim))
                continue
            # Pods of one group may have different PriorityClasses.
            priority_class = priority_class_of(pod) if claim.group is None else None
            known[key] = demands_of_template(template, view, settings, priority_class, effort)
            problems += (_of_template(each, claim) for each in known[key].problems)
        (pieces if claim.group is None else shared)[claim.name] = known[key].demands
    group = next((claim.group for claim in claims if claim.group is not None), None)
    return PodDemands(_with_gpus(pieces), group, _with_gpus(shared), tuple(problems))


def holdings_of_pod(
    pod: Pod,
    view: ClusterView,
    settings: Quotas,
    claimed: Collection[str] = (),
    *,
    alike: dict[bytes, ExtendedResources] | None = None,
) -> tuple[DeviceDemand, ...]:
    """The devices that a pod holds by extended resources; without a node, those that it requests.

    If the node is gone or does not show the resource, the pod counts as the most that it could have received.

    Args:
        pod: as it is stored.
        view: the cluster, with nodes, classes and slices.
        settings: how quotas count.
        claimed: resources to leave out once the pod has a node, because a claim holds them.
        alike: the extended resources of pods that were read before with the same view and settings; this one's are added.
    """
    extended = ExtendedResources(pod, priority_class_of(pod), view, settings)
    if alike is not None:
        extended = alike.setdefault(_decisive_part(pod.spec), extended)
    node = pod.spec.get("nodeName")
    return tuple((extended.holdings(node, claimed) if node else extended.demands).values())


def _decisive_part(spec: Mapping[str, Any]) -> bytes:
    """All that decides about the extended resources of a pod, as it is written."""
    fields = [spec.get(field) for field in ("priorityClassName", "nodeSelector", "affinity")]
    containers = [*mappings_at(spec, ("initContainers",)), None, *mappings_at(spec, ("containers",))]
    requests = [each and (each.get("resources"), each.get("restartPolicy")) for each in containers]
    return marshal.dumps((fields, requests), 2)


def priority_class_of(pod: Pod) -> str:
    """The name of a pod's PriorityClass, or an empty text. The API server has filled in the default class.

    Source: k8s.io/kubernetes plugin/pkg/admission/priority.
    """
    name = lookup(pod.spec, ("priorityClassName",))
    return name if isinstance(name, str) else ""


def _with_gpus(pieces: Mapping[str, tuple[DeviceDemand, ...]]) -> dict[str, tuple[DeviceDemand, ...]]:
    return {name: demands for name, demands in pieces.items() if demands}


def _missing_template(claim: PodClaim) -> Problem:
    seen = "can be seen" if claim.document is UNKNOWN else "exists"
    template = f"ResourceClaimTemplate {shown(claim.object_name)}"
    said = f"no {template} {seen} in {claim.namespace}, so nothing is charged for it now"
    return Problem(claim.path, said, "create the template first; its claim is charged when it is made")


def _unknown_group(pod: Pod, claim: PodClaim) -> Problem:
    group = f"PodGroup {shown(pod_group_name(pod.document))}"
    said = f"{group} is unknown, and its pods may share the claim, so it is charged when it is made"
    return Problem(claim.path, said, f"ask an administrator to let gpu-admission read {POD_GROUP}s, and to serve them")


def _places(pod: Pod, resource: str) -> Iterator[FieldPath]:
    for container in pod.all_containers:
        for section, amounts in (("limits", container.limits), ("requests", container.requests)):
            if resource in amounts:
                yield container.path / "resources" / section / resource


def _of_template(found: Problem, claim: PodClaim) -> Problem:
    """A problem of a template, reported at the pod that names it."""
    said = f"{found.message} ({found.path})"
    return Problem(claim.path, said, f"in ResourceClaimTemplate {shown(claim.object_name)}, {found.remedy}")
