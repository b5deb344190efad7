"""DeviceTaintRules add taints to the devices that they select, as Kubernetes' tracker of ResourceSlices does."""

from __future__ import annotations

from fnmatch import fnmatchcase
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.devices.allocation.pools import SliceIndex
from policies.devices.allocation.slices import Slice, TargetNode
from policies.devices.device_taint_rules import (
    PoolTaints,
    TaintRuleIndex,
    added_by_text,
    evicting_rules,
    read_rule,
    rules_for_allocation,
)
from policies.fleet.cluster_digest import read_cluster
from policies.kubernetes.nodes import Taint
from tests.explain import conftest as k8s
from webhook.cluster.manifests import ManifestsView

NAMES = st.sampled_from(["a", "b", "c"])
TAINTS = st.builds(
    lambda key, effect: {"key": key, "effect": effect},
    st.sampled_from(["example.com/repair", "gpu.nvidia.com/xid"]),
    st.sampled_from(["None", "NoSchedule", "NoExecute", "Later"]),
)
SELECTORS = st.none() | st.fixed_dictionaries(
    {}, optional=dict.fromkeys(("driver", "pool", "device"), st.sampled_from(["", "a", "b", "c"]))
)
DEVICES = st.lists(st.tuples(NAMES, st.lists(TAINTS, max_size=2)), unique_by=lambda each: each[0], max_size=3)
SLICES = st.lists(st.tuples(NAMES, NAMES, DEVICES), max_size=4)


def written(selector, taint, number=0):
    spec = {"taint": taint} if selector is None else {"taint": taint, "deviceSelector": selector}
    return {"kind": "DeviceTaintRule", "metadata": {"name": f"rule-{number}"}, "spec": spec}


def published(driver, pool, devices):
    named = [{"name": name, **({"taints": taints} if taints else {})} for name, taints in devices]
    return k8s.resource_slice(named, "node-1", driver=driver, pool=pool)


def taints_of(index):
    """The taints of each device, without the names of rules."""
    return {
        device.id: [{key: value for key, value in taint.items() if key != "addedBy"} for taint in device.taints]
        for found in index.of_node("node-1")
        for device in found.devices
    }


def expected_taints(slices, rules):
    """Own taints, then those of each rule whose pattern the path of the device has; `deviceSelector: {}` is `*/*/*`."""
    found = {}
    for driver, pool, devices in slices:
        for name, own in devices:
            path = f"{driver}/{pool}/{name}"
            patterns = [
                "/".join((each or {}).get(field, "*") for field in ("driver", "pool", "device")) for each, _ in rules
            ]
            added = [taint for pattern, (_, taint) in zip(patterns, rules, strict=True) if fnmatchcase(path, pattern)]
            found[path] = [*own, *added]
    return found


@given(SLICES, st.lists(st.tuples(SELECTORS, TAINTS), max_size=4))
def test_every_device_has_its_own_taints_and_those_of_rules_that_select_it(slices, rules):
    slices = list({(driver, pool): (driver, pool, devices) for driver, pool, devices in slices}.values())
    read = [read_rule(written(*each)) for each in rules]
    index = SliceIndex([published(*each) for each in slices], taint_rules=read)
    assert taints_of(index) == expected_taints(slices, rules)


@given(SLICES, st.lists(st.tuples(SELECTORS, TAINTS), min_size=1, max_size=4))
def test_rules_change_nothing_of_devices_but_their_taints(slices, rules):
    slices = list({(driver, pool): (driver, pool, devices) for driver, pool, devices in slices}.values())
    plain = SliceIndex(published(*each) for each in slices)
    tainted = SliceIndex(
        [published(*each) for each in slices], taint_rules=[read_rule(written(*each)) for each in rules]
    )
    fields = ("name", "document", "attributes", "counters", "counter_sets", "is_shareable", "binding_conditions", "id")

    def without_taints(index):
        return [
            [getattr(device, field) for field in fields]
            for found in index.of_node("node-1")
            for device in found.devices
        ]

    assert without_taints(tainted) == without_taints(plain)


def test_slice_that_no_rule_selects_is_not_read_again():
    found, rule = Slice(published("a", "b", [("c", [])])), written({"pool": "c"}, {"key": "k", "effect": "NoSchedule"})
    assert found.with_taints(TaintRuleIndex([read_rule(rule)]).of_pool("a", "b")) is found


def test_tainted_slice_is_kept_for_the_same_rules():
    found = Slice(published("a", "b", [("c", [])]))
    first, same, other = (
        PoolTaints((read_rule(k8s.taint_rule(each)),)) for each in ("NoSchedule", "NoSchedule", "None")
    )
    assert found.with_taints(first) is found.with_taints(same)
    assert found.with_taints(other) is not found.with_taints(first)


def test_pools_and_devices_that_the_same_rules_select_share_their_taints():
    index = TaintRuleIndex([read_rule(written({"driver": "a"}, {"key": "k", "effect": "NoSchedule"}))])
    assert index.of_pool("a", "b") is index.of_pool("a", "c")
    assert index.of_pool("a", "b").of_device("x") is index.of_pool("a", "c").of_device("y")


@given(st.lists(SELECTORS, max_size=4))
def test_index_knows_the_pools_that_rules_select(selectors):
    rules = [read_rule(written(each, {"key": "k", "effect": "NoSchedule"})) for each in selectors]
    pools = dict.fromkeys(product("abc", "abc"))
    expected = {pool for pool in pools if any(each.selects_in(*pool) for each in rules)}
    assert set(TaintRuleIndex(rules).selected_pools(pools)) == expected


@pytest.mark.parametrize(
    "spec",
    [
        {},
        {"taint": {"key": "k"}},
        {"taint": {"effect": "NoSchedule"}},
        {"taint": {"key": "k", "effect": "NoSchedule"}, "deviceSelector": {"pool": 1}},
    ],
)
def test_malformed_rule_selects_nothing(spec):
    assert read_rule({"metadata": {"name": "broken"}, "spec": spec}) is None


def view(*objects, version="v1.37.1", gates=None):
    facts = {"serverVersion": {"gitVersion": version}, "featureGates": gates or {}}
    return ManifestsView([facts, *k8s.BASE, k8s.node(), k8s.resource_slice(k8s.gpus(1)), *objects])


def taints(known):
    index = known.derive(read_cluster).index
    return [
        str(Taint.read(taint)) + added_by_text(taint)
        for found in index.of_node("node-1")
        for taint in found.devices[0].taints
    ]


ADDED = ["example.com/repair:NoSchedule of DeviceTaintRule repair"]
GATE, TAINTS_GATE = "DRADeviceTaintRules", "DRADeviceTaints"


@pytest.mark.parametrize(
    ("version", "gates", "expected"),
    [
        ("v1.37.0", {}, ADDED),
        ("v1.36.2", {}, []),
        ("v1.36.2", {GATE: True}, ADDED),
        ("v1.37.0", {GATE: False}, []),
        ("v1.37.0", {GATE: True, TAINTS_GATE: False}, []),
    ],
)
def test_rules_count_where_the_cluster_applies_them(version, gates, expected):
    assert taints(view(k8s.taint_rule(), version=version, gates=gates)) == expected


def test_rules_count_if_the_version_is_unknown():
    assert taints(ManifestsView([k8s.resource_slice(k8s.gpus(1)), k8s.node(), k8s.taint_rule()])) == ADDED


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
def test_rules_of_every_version_count(version):
    assert taints(view(k8s.taint_rule(version=version))) == ADDED


def without_selector(effect="NoSchedule"):
    rule = k8s.taint_rule(effect)
    del rule["spec"]["deviceSelector"]
    return rule


@pytest.mark.parametrize(("version", "expected"), [("v1.37.0", ADDED), ("v1.38.0", [])])
def test_rule_without_a_selector_taints_all_devices_for_schedulers_with_that_bug(version, expected):
    assert taints(view(without_selector(), version=version)) == expected


@pytest.mark.parametrize("version", ["v1.37.0", "v1.38.0"])
def test_rule_without_a_selector_ends_no_pods(version):
    assert evicting_rules(view(without_selector("NoExecute"), version=version)) == ()


def test_rules_are_in_the_order_of_their_names():
    known = view(k8s.taint_rule(name="b"), k8s.taint_rule(name="a"))
    assert [each.name for each in known.derive(rules_for_allocation)] == ["a", "b"]


def test_slices_of_counters_and_devices_get_taints_too():
    together = {**published("a", "b", [("c", [])])}
    together["spec"]["sharedCounters"] = [{"name": "gpu-0", "counters": {"memory": {"value": "1"}}}]
    index = SliceIndex([together], taint_rules=[read_rule(k8s.taint_rule())], counters_with_devices=True)
    assert taints_of(index) == {"a/b/c": [{"key": "example.com/repair", "effect": "NoSchedule"}]}


def test_target_node_of_a_tainted_slice_is_that_of_the_slice():
    reachable = k8s.resource_slice([{"name": "gpu-0", "allNodes": True}], "", perDeviceNodeSelection=True)
    found = Slice(reachable).with_taints(PoolTaints((read_rule(k8s.taint_rule()),)))
    assert TargetNode(k8s.node()).matches(found.selection_of(found.devices[0]))
