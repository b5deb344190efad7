"""DeviceTaintRules: taints that administrators add to devices, beside those of the drivers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

from policies.kubernetes.objects import lookup, mapping_at, name_of
from policies.kubernetes.versions import Feature

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView


KIND = "DeviceTaintRule"
TAINT_RULE_VERSIONS = {
    "v1": Feature.DeviceTaintRuleV1,
    "v1beta2": Feature.DeviceTaintRuleV1Beta2,
    "v1alpha3": Feature.DeviceTaintRuleV1Alpha3,
}
"""The versions of resource.k8s.io that have the kind, newest first."""
NO_EXECUTE = "NoExecute"
"""The effect that ends pods."""
PREVENTING = (NO_EXECUTE, "NoSchedule")
"""The effects that keep devices from new pods."""
EFFECTS = (*PREVENTING, "None")
ADDED_BY = "addedBy"
"""The field of a taint with the name of the DeviceTaintRule that adds it; taints of Kubernetes have no such field."""


@dataclass(frozen=True, slots=True)
class DeviceTaintRule:
    """One taint, and the devices that get it."""

    name: str
    has_selector: bool
    """False without `deviceSelector`; the other fields then select all devices."""
    driver: str | None
    """None for every driver; an empty text is that of no driver. The same holds for pools and devices."""
    pool: str | None
    device: str | None
    taint: Mapping[str, str]
    """`key`, `value` and so on, and `addedBy`."""

    def selects_in(self, driver: str, pool: str) -> bool:
        """True if devices of a pool get the taint, if they have the right name."""
        return self.driver in (None, driver) and self.pool in (None, pool)


@dataclass(frozen=True)
class PoolTaints:
    """The taints that rules add to the devices of a pool."""

    rules: tuple[DeviceTaintRule, ...] = ()
    """The rules that select devices of the pool, by name."""

    @cached_property
    def _of_every_device(self) -> tuple[Mapping[str, str], ...]:
        return tuple(each.taint for each in self.rules if each.device is None)

    @cached_property
    def _names(self) -> frozenset[str]:
        return frozenset(each.device for each in self.rules if each.device is not None)

    def of_device(self, name: str) -> tuple[Mapping[str, str], ...]:
        """The taints of one device, in the order of the rules; devices that no rule names share one tuple."""
        if name not in self._names:
            return self._of_every_device
        return tuple(each.taint for each in self.rules if each.device in (None, name))


_PoolSelector = tuple[str | None, str | None]
"""The driver and the pool that a rule names; None for all."""


class TaintRuleIndex:
    """DeviceTaintRules by driver and pool, so that many rules cost no more than those that select a pool."""

    def __init__(self, rules: Iterable[DeviceTaintRule]) -> None:
        """Index rules that are sorted by name."""
        self._positions: dict[_PoolSelector, list[tuple[int, DeviceTaintRule]]] = {}
        for position, rule in enumerate(rules):
            self._positions.setdefault((rule.driver, rule.pool), []).append((position, rule))
        self._taints: dict[tuple[_PoolSelector, ...], PoolTaints] = {}

    def of_pool(self, driver: str, pool: str) -> PoolTaints:
        """The taints of a pool; pools that the same rules select share one object."""
        keys = tuple(key for key in product((None, driver), (None, pool)) if key in self._positions)
        found = self._taints.get(keys)
        if found is None:
            positions = sorted((each for key in keys for each in self._positions[key]), key=lambda each: each[0])
            found = self._taints[keys] = PoolTaints(tuple(rule for _, rule in positions))
        return found

    def selected_pools(self, pools: Mapping[tuple[str, str], object]) -> Sequence[tuple[str, str]]:
        """The pools, by driver and name, of which a rule selects devices."""
        if any(None in key for key in self._positions):
            return [key for key in pools if self.of_pool(*key).rules]
        named = ((str(driver), str(pool)) for driver, pool in self._positions)
        return [key for key in named if key in pools]


def read_rule(document: Object) -> DeviceTaintRule | None:
    """The rule that an object is; None if it has no taint, or a field of the wrong type.

    Source: k8s.io/api/resource/v1beta2/types.go.
    """
    taint, selector = lookup(document, ("spec", "taint")), lookup(document, ("spec", "deviceSelector"))
    if not isinstance(taint, dict) or not isinstance(taint.get("key"), str) or not isinstance(taint.get("effect"), str):
        return None
    fields = mapping_at(document, ("spec", "deviceSelector"))
    driver, pool, device = (fields.get(field) for field in ("driver", "pool", "device"))
    if not all(each is None or isinstance(each, str) for each in (driver, pool, device)):
        return None
    name = name_of(document)
    texts = {field: value for field, value in taint.items() if isinstance(value, str)}
    return DeviceTaintRule(name, isinstance(selector, dict), driver, pool, device, {**texts, ADDED_BY: name})


def with_time_of_taint(rule: Object, stored: Object | None) -> Object:
    """A rule as the API server stores it over another one.

    The time of a taint stays until its effect changes. A time that is set to now is null here.

    Source: k8s.io/kubernetes pkg/registry/resource/devicetaintrule/strategy.go PrepareForUpdate; kubectl keeps a time that a
    manifest leaves out.
    """
    spec, before = mapping_at(rule, ("spec",)), mapping_at(stored, ("spec", "taint"))
    taint = mapping_at(spec, ("taint",))
    time = taint.get("timeAdded") or before.get("timeAdded")
    if stored is not None and taint.get("effect") != before.get("effect") and time == before.get("timeAdded"):
        time = None
    return {**rule, "spec": {**spec, "taint": {**taint, "timeAdded": time}}} if taint else rule


def rules_for_allocation(view: ClusterView) -> tuple[DeviceTaintRule, ...]:
    """The rules whose taints the scheduler sees, by name; call it as `view.derive(rules_for_allocation)`.

    Source: k8s.io/dynamic-resource-allocation/resourceslice/tracker, whose order is arbitrary.
    """
    selects_without = Feature.RulesWithoutSelector.is_on(view) is True
    return tuple(each for each in _rules_in_force(view) if each.has_selector or selects_without)


def evicting_rules(view: ClusterView) -> tuple[DeviceTaintRule, ...]:
    """The rules whose taints end pods, by name.

    Source: k8s.io/kubernetes pkg/controller/devicetainteviction, where a rule without a selector selects nothing.
    """
    return tuple(each for each in _rules_in_force(view) if each.has_selector and each.taint.get("effect") == NO_EXECUTE)


def _rules_in_force(view: ClusterView) -> list[DeviceTaintRule]:
    """The rules that a cluster applies; where the gates are unknown, those that exist count."""
    read = [rule for each in view.known_or_reviewed(KIND) if (rule := read_rule(each)) is not None]
    return sorted(read, key=lambda each: each.name) if read and are_applied(view) else []


def are_applied(view: ClusterView) -> bool:
    """False if the gates are off in a cluster that rules and taints need."""
    return all(each.is_on(view) is not False for each in (Feature.DRADeviceTaints, Feature.DRADeviceTaintRules))


def added_by_text(taint: Mapping[str, object]) -> str:
    """The rule that adds a taint: ` of DeviceTaintRule repair`; empty for taints of a driver."""
    return f" of {KIND} {taint[ADDED_BY]}" if ADDED_BY in taint else ""
