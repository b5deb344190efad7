"""ResourceQuotas and LimitRanges in a cluster: warnings of what Kubernetes never counts, and what a maximum does."""

from __future__ import annotations

from fractions import Fraction

from policies.quota.limits.quota import Limit
from policies.quota.limits.selectors import Selector
from policies.quota.native_limits import NativeForm, NativeLimit
from testbed import manifests

HARD = {"limits.nvidia.com/gpu": "8", "requests.cpu": "8"}


def limits(kind, team, **spec):
    metadata = {"name": "gpus", "namespace": team}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": spec}


def rules(answer):
    assert answer.accepted
    return [word.strip("[]") for line in answer.warnings for word in line.split() if word.startswith("[GA")]


def test_quota_of_a_key_that_is_never_counted_gets_a_warning(cluster):
    team = cluster.namespace()
    assert rules(cluster.create(limits("ResourceQuota", team, hard=HARD))) == ["GA509"]


def test_quota_without_devices_costs_no_call(cluster):
    assert cluster.create(limits("ResourceQuota", cluster.namespace(), hard={"requests.cpu": "8"})).warnings == ()


def test_limit_range_with_a_maximum_gets_a_warning_and_gives_gpus_to_every_container(cluster):
    team = cluster.namespace()
    answer = cluster.create(limits("LimitRange", team, limits=[{"type": "Container", "max": {"nvidia.com/gpu": "2"}}]))
    assert rules(answer) == ["GA510"]
    document = manifests.pod(team)
    document["spec"]["containers"][0]["resources"] = {}
    made = cluster.create(document)
    assert made.accepted
    assert made.object["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}


def test_limit_range_with_a_default_of_zero_gets_no_warning(cluster):
    item = {"type": "Container", "max": {"nvidia.com/gpu": "2"}, "default": {"nvidia.com/gpu": "0"}}
    assert rules(cluster.create(limits("LimitRange", cluster.namespace(), limits=[item]))) == []


def test_forms_of_limits_are_accepted(cluster):
    team, batch = cluster.namespace(), Limit("batch", "gpus", Fraction(2), Selector(priority_classes=("system-*",)))
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["system-node-critical"]}
    devices = NativeLimit(Limit("all", "devices", Fraction(4)), "gpu.nvidia.com.deviceclass.resource.k8s.io/devices", 4)
    form = NativeForm((NativeLimit(batch, "requests.nvidia.com/gpu", 2, scope), devices), ())
    assert all(cluster.create(made).accepted for made, _ in form.resource_quotas(team))
