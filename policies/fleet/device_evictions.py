"""Evictions: pods that Kubernetes ends because of taints of the devices that they hold.

Source: k8s.io/kubernetes pkg/controller/devicetainteviction/device_taint_eviction.go of 1.36.2 and of July 2026.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.devices.allocation.checks import tolerates
from policies.devices.device_taint_rules import ADDED_BY, KIND, NO_EXECUTE, TaintRuleIndex, evicting_rules
from policies.devices.pod_groups import pod_group_name
from policies.devices.resource_claims import Claim, DeviceKey
from policies.kubernetes.bounds import count_work
from policies.kubernetes.names import format_count
from policies.kubernetes.nodes import Taint
from policies.kubernetes.objects import (
    DEFAULT_NAMESPACE,
    has_ended,
    lookup,
    mappings_at,
    name_of,
    namespace_of,
)
from policies.kubernetes.resourceslices import PoolPart, device_fields, newest
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.devices.device_taint_rules import DeviceTaintRule
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView


class EvictingTaint(NamedTuple):
    """A taint of a device that ends the pods that hold the device."""

    origin: str
    """The object with the taint: `DeviceTaintRule repair`, `ResourceSlice node-1-gpu`."""
    text: str
    """`example.com/repair:NoExecute`."""
    since: str
    """The time of the taint; empty if it is set when the object is stored."""
    delay: int
    """The seconds from then on for which the claim tolerates the taint."""
    device: str
    """`driver/pool/device`."""

    @property
    def when(self) -> str:
        """The time of the end, to follow a verb: `at once`, `30 seconds after the taint is there`."""
        if self.delay:
            return f"{format_count(self.delay, 'second')} after {self.since or 'the taint is there'}"
        return "at once"


class TaintedPod(NamedTuple):
    """A pod that holds devices with taints that end pods, which its claims do not tolerate for ever."""

    pod: Object
    taints: tuple[EvictingTaint, ...]
    """Those that are tolerated for the shortest time first."""
    ends: bool
    """False if its devices come from extended resources: Kubernetes does not end such pods."""

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name of the pod."""
        return namespace_of(self.pod) or DEFAULT_NAMESPACE, name_of(self.pod)


def tainted_pods(
    view: ClusterView, rules: Sequence[DeviceTaintRule], *, counts_drivers: bool = True
) -> list[TaintedPod]:
    """The running pods that hold devices with taints of the effect NoExecute, by namespace and name.

    Args:
        view: The cluster.
        rules: The DeviceTaintRules that end pods, as `evicting_rules` returns them.
        counts_drivers: False to look at the taints of rules only, not at those that drivers publish.
    """
    by_device, index = view.derive(_taints_of_drivers) if counts_drivers else {}, TaintRuleIndex(rules)
    if not rules and not by_device:
        return []
    holders = view.derive(_holders)
    pools = dict.fromkeys((*index.selected_pools(holders), *((driver, pool) for driver, pool, _ in by_device)))
    tainted: dict[tuple[str, str], tuple[Claim, list[EvictingTaint]]] = {}
    for claim in {id(each): each for pool in pools for each in holders.get(pool, ())}.values():
        count_work(1)
        if taints := list(_taints_of_claim(claim, index, by_device)):
            tainted[claim.namespace or DEFAULT_NAMESPACE, claim.name] = claim, taints
    found = (_tainted_pod(pod, tainted, view) for _, pod in sorted(_users(tainted, view).items()))
    return [each for each in found if each is not None]


def pods_with_evicting_taints(view: ClusterView) -> Mapping[tuple[str, str], TaintedPod]:
    """`tainted_pods` of all rules, by namespace and name; `view.derive(pods_with_evicting_taints)`."""
    return {each.key: each for each in tainted_pods(view, view.derive(evicting_rules))}


def _holders(view: ClusterView) -> Mapping[tuple[str, str], Sequence[Claim]]:
    """The claims that hold devices, by driver and pool of the devices."""
    found: defaultdict[tuple[str, str], list[Claim]] = defaultdict(list)
    for claim in map(Claim, view.known_objects("ResourceClaim")):
        count_work(1)
        for pool in {key[:2] for key in claim.device_keys}:
            found[pool].append(claim)
    return dict(found)


def _users(claims: Mapping[tuple[str, str], tuple[Claim, object]], view: ClusterView) -> dict[tuple[str, str], Object]:
    """The pods, and the pods of PodGroups, that claims are reserved for, by namespace and name."""
    names = {(home, name) for (home, _), (claim, _) in claims.items() for name in claim.consumer_names("pods")}
    groups = {(home, name) for (home, _), (claim, _) in claims.items() for name in claim.consumer_names("podgroups")}
    found = {(home, name): view.get("Pod", name, home) for home, name in names}
    for pod in view.known_objects("Pod") if groups else ():
        home = namespace_of(pod) or DEFAULT_NAMESPACE
        if (home, pod_group_name(pod)) in groups:
            found[home, name_of(pod)] = pod
    return {key: pod for key, pod in found.items() if isinstance(pod, dict)}


def _tainted_pod(
    pod: Object, tainted: Mapping[tuple[str, str], tuple[Claim, list[EvictingTaint]]], view: ClusterView
) -> TaintedPod | None:
    count_work(1)
    if not lookup(pod, ("spec", "nodeName")) or has_ended(pod) or lookup(pod, ("metadata", "deletionTimestamp")):
        return None
    namespace = namespace_of(pod) or DEFAULT_NAMESPACE
    entries = (*mappings_at(pod, ("spec", "resourceClaims")), *mappings_at(pod, ("status", "resourceClaimStatuses")))
    named = dict.fromkeys(str(each.get("resourceClaimName")) for each in entries)
    implicit = str(lookup(pod, ("status", "extendedResourceClaimStatus", "resourceClaimName")))
    of_claims, of_resources = (
        [
            taint
            for name in names
            if (found := tainted.get((namespace, name))) is not None and _is_reserved(found[0], pod, view)
            for taint in found[1]
        ]
        for names in (named, (implicit,))
    )
    taints = sorted(of_claims or of_resources, key=lambda each: (each.delay, each.origin, each.device))
    return TaintedPod(pod, tuple(taints), bool(of_claims)) if taints else None


def _is_reserved(claim: Claim, pod: Object, view: ClusterView) -> bool:
    if name_of(pod) in claim.consumer_names("pods"):
        return True
    group = pod_group_name(pod)
    shares = bool(group) and group in claim.consumer_names("podgroups")
    return shares and Feature.DRAWorkloadResourceClaims.is_on(view) is not False


_DriverTaints = dict[DeviceKey, list[tuple[str, dict[str, Any]]]]
"""By driver, pool and device, the taints that end pods, each with the name of its slice."""


def _taints_of_claim(claim: Claim, rules: TaintRuleIndex, by_device: _DriverTaints) -> Iterator[EvictingTaint]:
    for result, key in zip(claim.allocated_devices, claim.device_keys, strict=True):
        driver, pool, device = key
        of_driver = ((f"ResourceSlice {name}", taint) for name, taint in by_device.get(key, ()))
        of_rules = ((f"{KIND} {taint[ADDED_BY]}", taint) for taint in rules.of_pool(driver, pool).of_device(device))
        for origin, taint in (*of_driver, *of_rules):
            delay = _tolerated_seconds(mappings_at(result, ("tolerations",)), taint)
            if delay is not None:
                since = str(taint.get("timeAdded") or "")
                yield EvictingTaint(origin, str(Taint.read(taint)), since, delay, f"{driver}/{pool}/{device}")


def _tolerated_seconds(tolerations: Iterable[Mapping[str, Any]], taint: Mapping[str, Any]) -> int | None:
    """The seconds for which a taint is tolerated; 0 if it is not, None if it is for ever.

    Tolerations without an effect, which the scheduler takes for every effect, do not count.
    """
    matching = [each for each in tolerations if each.get("effect") == NO_EXECUTE and tolerates(each, taint)]
    seconds = [each.get("tolerationSeconds") for each in matching]
    if not all(isinstance(each, int) for each in seconds):
        return None
    return max(min((each for each in seconds if isinstance(each, int)), default=0), 0)


def _taints_of_drivers(view: ClusterView) -> _DriverTaints:
    parts = view.derive_each("ResourceSlice", _evicting_part)
    if parts is UNKNOWN or Feature.DRADeviceTaints.is_on(view) is False:
        return {}
    found: _DriverTaints = defaultdict(list)
    if any(part is not None and part[1][1] for part in parts):
        for pool, taints in newest(part for part in parts if part is not None):
            for device, name, taint in taints:
                found[(*pool, device)].append((name, taint))
    return found


_PartTaints = tuple[tuple[str, str], list[tuple[str, str, dict[str, Any]]]]
"""A pool, and device, slice and taint for each taint of a slice that ends pods."""


def _evicting_part(document: Object) -> tuple[PoolPart, _PartTaints] | None:
    part = PoolPart.of(document)
    if part is None:
        return None
    taints = [
        (str(device.get("name")), part.name, taint)
        for device in mappings_at(document, ("spec", "devices"))
        for taint in mappings_at(device_fields(device), ("taints",))
        if taint.get("effect") == NO_EXECUTE
    ]
    return part, (part.pool, taints)
