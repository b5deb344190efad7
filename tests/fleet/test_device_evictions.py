"""Pods that end because of taints of their devices, as Kubernetes' eviction controller decides."""

from __future__ import annotations

import pytest

from policies.devices.device_taint_rules import evicting_rules, read_rule
from policies.fleet.device_evictions import tainted_pods
from policies.kubernetes.bounds import bounded_by
from tests.counted_work import RecordedWork
from tests.explain import conftest as k8s
from tests.explain.conftest import running
from webhook.cluster.manifests import ManifestsView

VERSION = {"serverVersion": {"gitVersion": "v1.37.1"}}
NO_EXECUTE = {"key": "gpu.nvidia.com/broken", "effect": "NoExecute", "timeAdded": "2026-11-30T10:00:00Z"}


def ended(*objects, version=VERSION):
    view = ManifestsView([version, *objects])
    return {each.key[1]: each.taints for each in tainted_pods(view, evicting_rules(view)) if each.ends}


SLICE = k8s.resource_slice(k8s.gpus(2))
RULE = k8s.taint_rule("NoExecute", device="gpu-0")


def test_pod_with_a_device_that_a_rule_taints_ends_at_once():
    (taint,) = ended(SLICE, RULE, *running(), *running("other", [1]))["train"]
    assert (taint.origin, taint.text, taint.when) == (
        "DeviceTaintRule repair",
        "example.com/repair:NoExecute",
        "at once",
    )
    assert taint.device == "gpu.nvidia.com/node-1/gpu-0"


@pytest.mark.parametrize("effect", ["None", "NoSchedule", "Later"])
def test_other_effects_end_no_pod(effect):
    assert ended(SLICE, k8s.taint_rule(effect), *running()) == {}


def test_pod_ends_if_its_driver_taints_the_device():
    tainted = k8s.resource_slice([k8s.gpu(0, taints=[NO_EXECUTE]), k8s.gpu(1)])
    (taint,) = ended(tainted, *running(), *running("other", [1]))["train"]
    assert (taint.origin, taint.since) == ("ResourceSlice gpu.nvidia.com-node-1", "2026-11-30T10:00:00Z")


def test_taints_of_an_older_generation_of_the_pool_do_not_count():
    old = k8s.resource_slice([k8s.gpu(0, taints=[NO_EXECUTE])])
    new = {**k8s.resource_slice(k8s.gpus(1), generation=2), "metadata": {"name": "new"}}
    assert ended(old, new, *running()) == {}


def test_rule_ends_pods_whose_device_no_slice_shows_any_more():
    assert set(ended(k8s.resource_slice([]), RULE, *running())) == {"train"}


@pytest.mark.parametrize(
    ("tolerations", "delay"),
    [
        ([], 0),
        ([{"operator": "Exists", "effect": "NoExecute"}], None),
        ([{"key": "example.com/repair", "effect": "NoExecute", "tolerationSeconds": 30, "operator": "Exists"}], 30),
        ([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": -5}], 0),
        ([{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": each} for each in (60, 20)], 20),
        ([{"operator": "Exists", "effect": "NoExecute"}] * 2 + [{"effect": "NoExecute", "tolerationSeconds": 1}], None),
        ([{"key": "other", "operator": "Exists", "effect": "NoExecute"}], 0),
        ([{"operator": "Exists", "effect": "NoSchedule"}], 0),
        ([{"operator": "Exists"}], 0),
    ],
    ids=[
        "none",
        "ever",
        "seconds",
        "negative",
        "shortest",
        "ever and seconds",
        "other key",
        "other effect",
        "no effect",
    ],
)
def test_tolerations_delay_the_end(tolerations, delay):
    found = ended(SLICE, RULE, *running(tolerations=tolerations)).get("train")
    assert (found and found[0].delay) == delay


def test_delay_counts_from_the_time_of_the_taint():
    rule = k8s.taint_rule("NoExecute", taint={"timeAdded": "2026-11-30T10:00:00Z"})
    tolerations = [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]
    (taint,) = ended(SLICE, rule, *running(tolerations=tolerations))["train"]
    assert taint.when == "30 seconds after 2026-11-30T10:00:00Z"


def test_taint_that_ends_a_pod_first_comes_first():
    slow = [{"key": "example.com/repair", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}]
    fast = k8s.taint_rule("NoExecute", name="urgent", taint={"key": "example.com/urgent"})
    found = ended(SLICE, RULE, fast, *running(tolerations=slow))["train"]
    assert [each.origin for each in found] == ["DeviceTaintRule urgent", "DeviceTaintRule repair"]


@pytest.mark.parametrize(
    "change",
    [
        lambda pod, _: pod["spec"].pop("nodeName"),
        lambda pod, _: pod["status"].update(phase="Succeeded"),
        lambda pod, _: pod["metadata"].update(deletionTimestamp="2026-11-30T10:00:00Z"),
        lambda pod, _: pod["spec"].pop("resourceClaims") and pod["status"].clear(),
        lambda _, claim: claim["status"].update(reservedFor=[{"resource": "pods", "name": "other"}]),
        lambda _, claim: claim["metadata"].update(namespace="team-b"),
        lambda _, claim: claim.pop("status"),
    ],
    ids=["unscheduled", "ended", "deleted", "no claim", "reserved for another", "other namespace", "not allocated"],
)
def test_pod_that_does_not_use_the_device_does_not_end(change):
    pod, claim = running()
    change(pod, claim)
    assert ended(SLICE, RULE, pod, claim) == {}


def test_pods_of_a_group_that_share_a_claim_end():
    pod, claim = running(schedulingGroup={"podGroupName": "ring"})
    claim["status"]["reservedFor"] = [{"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "ring"}]
    gates = {"featureGates": {"DRAWorkloadResourceClaims": True}, **VERSION}
    assert set(ended(SLICE, RULE, pod, claim, version=gates)) == {"train"}
    assert ended(SLICE, RULE, pod, claim) == {}


def test_pod_with_devices_from_extended_resources_does_not_end():
    pod, claim = running()
    del pod["spec"]["resourceClaims"]
    pod["status"] = {"extendedResourceClaimStatus": {"resourceClaimName": "train-gpu"}}
    view = ManifestsView([VERSION, SLICE, RULE, pod, claim])
    (found,) = tainted_pods(view, evicting_rules(view))
    assert (found.key, found.ends) == (("team-a", "train"), False)


@pytest.mark.parametrize("version", ["v1.36.2", "v1.35.0"])
def test_no_rule_ends_pods_where_rules_are_off(version):
    assert ended(SLICE, RULE, *running(), version={"serverVersion": {"gitVersion": version}}) == {}


def test_rule_of_one_pool_reads_only_the_claims_of_that_pool():
    rule = k8s.taint_rule("NoExecute", driver="gpu.nvidia.com", pool="node-7")
    pods = [each for number in range(50) for each in running(f"train-{number}", node=f"node-{number}")]
    view, work = ManifestsView([VERSION, rule, *pods]), RecordedWork()
    tainted_pods(view, evicting_rules(view))
    with bounded_by(work):
        (found,) = tainted_pods(view, evicting_rules(view))
    assert (found.key, len(work.steps)) == (("team-a", "train-7"), 2)


def test_taints_of_drivers_can_be_left_out():
    tainted = k8s.resource_slice([k8s.gpu(0, taints=[NO_EXECUTE]), k8s.gpu(1)])
    view = ManifestsView([VERSION, tainted, *running(), *running("other", [1])])
    rule = read_rule(k8s.taint_rule("NoExecute", device="gpu-1"))
    assert [each.key[1] for each in tainted_pods(view, [rule], counts_drivers=False)] == ["other"]
