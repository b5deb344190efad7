"""Rules on DeviceTaintRules: their fields, what they select, and the pods that they end."""

import json

import pytest

from testbed import libyaml

SLICES = """
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-a}
spec:
  driver: gpu.nvidia.com
  nodeName: node-a
  pool: {name: node-a, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}, {name: gpu-1}]
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: node-b}
spec:
  driver: gpu.nvidia.com
  nodeName: node-b
  pool: {name: node-b, generation: 1, resourceSliceCount: 1}
  devices: [{name: gpu-0}]
"""
NEW = "\n---\nserverVersion: {gitVersion: v1.37.1}\n"


def rule(selector="{driver: gpu.nvidia.com, pool: node-a}", effect="NoSchedule", key="example.com/repair"):
    selected = "" if selector is None else f"  deviceSelector: {selector}\n"
    return (
        "apiVersion: resource.k8s.io/v1\nkind: DeviceTaintRule\nmetadata: {name: repair}\nspec:\n"
        f"{selected}  taint: {{key: {key}, effect: {effect}}}\n"
    )


def running(*pods, device="gpu-0", tolerations="[]"):
    """Pods in namespaces, `team-a/train`, that share a claim of each name."""
    text = ""
    for each in pods:
        namespace, _, name = each.partition("/")
        text += f"""
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaim
metadata: {{name: {name}-gpu, namespace: {namespace}}}
status:
  allocation:
    devices:
      results:
      - {{request: gpu, driver: gpu.nvidia.com, pool: node-a, device: {device}, tolerations: {tolerations}}}
  reservedFor: [{{resource: pods, name: {name}}}]
---
apiVersion: v1
kind: Pod
metadata: {{name: {name}, namespace: {namespace}}}
spec:
  nodeName: node-a
  containers: [{{name: main, image: train}}]
  resourceClaims: [{{name: gpu, resourceClaimName: {name}-gpu}}]
"""
    return text


def test_rule_for_devices_that_no_pod_uses_has_no_finding(examined):
    assert examined(rule() + SLICES + NEW) == ()


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1alpha3"])
def test_fields_are_those_of_every_version(examined, version):
    text = rule().replace("io/v1\n", f"io/{version}\n")
    assert not [each for each in examined(text) if each.rule.id != "GA200"]


@pytest.mark.parametrize(
    ("version", "release", "expected"),
    [
        ("v1", "v1.37.1", []),
        ("v1beta2", "v1.36.2", []),
        ("v1beta2", "v1.37.1", ["is served by Kubernetes 1.37 only where the administrator has turned it on"]),
        ("v1", "v1.36.2", ['no matches for kind "DeviceTaintRule" in version "resource.k8s.io/v1"']),
        ("v1alpha3", "v1.39.0", ['no matches for kind "DeviceTaintRule" in version "resource.k8s.io/v1alpha3"']),
    ],
)
def test_version_must_be_served(findings_of, version, release, expected):
    text = rule().replace("io/v1\n", f"io/{version}\n") + f"---\nserverVersion: {{gitVersion: {release}}}\n"
    found = findings_of("GA200", text)
    assert len(found) == len(expected)
    assert all(part in whole for part, whole in zip(expected, found, strict=True))


def test_fields_that_are_gone_are_refused_because_more_devices_would_be_selected(findings_of):
    (found,) = findings_of("GA201", rule("{deviceClassName: gpu.nvidia.com}"))
    assert "name the driver, the pool or the device" in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (rule('{driver: ""}'), "spec.deviceSelector.driver: Required value; write the name of a driver"),
        (rule("{device: GPU-0}"), 'spec.deviceSelector.device: Invalid value: "GPU-0"'),
        (rule("{pool: a//b}"), 'spec.deviceSelector.pool: Invalid value: "a//b"'),
        (rule(effect="PreferNoSchedule"), 'spec.taint.effect: Unsupported value: "PreferNoSchedule"'),
        (rule(key="a/b/c"), 'spec.taint.key: Invalid value: "a/b/c"'),
    ],
)
def test_invalid_value_is_refused(findings_of, text, expected):
    (found,) = findings_of("GA260", text)
    assert found.startswith(expected)


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("{driver: gpu.nvidia.co}", "write driver: gpu.nvidia.com"),
        ("{driver: gpu.nvidia.com, pool: node-c}", "write pool: node-"),
        (
            "{driver: gpu.nvidia.com, pool: node-b, device: gpu-7}",
            'no device of driver gpu.nvidia.com and pool node-b has the name "gpu-7"',
        ),
    ],
)
def test_selector_that_selects_nothing_is_reported_with_the_nearest_name(findings_of, selector, expected):
    (found,) = findings_of("GA261", rule(selector) + SLICES + NEW)
    assert expected in found


def test_selector_is_not_compared_with_unknown_devices(findings_of):
    assert findings_of("GA261", rule("{driver: other.example.com}") + NEW) == []


@pytest.mark.parametrize(("release", "keeps_off"), [("v1.37.0", True), ("v1.38.0", False)])
def test_missing_selector_is_reported_with_what_the_version_makes_of_it(findings_of, release, keeps_off):
    (found,) = findings_of("GA261", rule(None) + f"---\nserverVersion: {{gitVersion: {release}}}\n")
    assert "so the rule ends no pods" in found
    assert ("keep all devices of the cluster from new pods" in found) is keeps_off


def test_rule_in_a_cluster_that_applies_none_is_reported(findings_of):
    (found,) = findings_of("GA261", rule() + "---\nserverVersion: {gitVersion: v1.36.2}\n")
    assert "has no effect unless the feature gates DRADeviceTaints and DRADeviceTaintRules are on" in found


@pytest.mark.parametrize(("release", "crashes"), [("v1.36.2", True), ("v1.37.0", False)])
def test_scheduler_that_crashes_while_rules_exist_is_reported(findings_of, release, crashes):
    gates = "{DRADeviceTaints: true, DRADeviceTaintRules: true}"
    found = findings_of("GA261", rule() + f"---\nserverVersion: {{gitVersion: {release}}}\nfeatureGates: {gates}\n")
    assert ["crashes as soon as a ResourceSlice is added or changed" in each for each in found] == [True] * crashes


@pytest.mark.parametrize("effect", ["NoExecute", "NoSchedule"])
def test_empty_selector_is_reported(findings_of, effect):
    (found,) = findings_of("GA262", rule("{}", effect) + NEW)
    assert "taints every device of every driver" in found


def test_selector_of_all_gpus_is_reported(findings_of):
    (found,) = findings_of("GA262", rule("{driver: gpu.nvidia.com}") + SLICES + NEW)
    assert "selects all 3 devices of gpu.nvidia.com for new pods" in found


def test_selector_of_everything_that_has_no_effect_is_not_reported(findings_of):
    assert findings_of("GA262", rule("{}", '"None"') + SLICES + NEW) == []


def test_running_pods_that_a_rule_ends_are_counted_by_namespace(findings_of):
    (found,) = findings_of(
        "GA263", rule(effect="NoExecute") + SLICES + NEW + running("team-a/one", "team-a/two", "team-b/three")
    )
    assert "ends 3 running pods" in found
    assert "in namespace team-a (2) and team-b (1)" in found


@pytest.mark.parametrize("effect", ["NoSchedule", '"None"'])
def test_rule_with_another_effect_ends_no_pods(findings_of, effect):
    assert findings_of("GA263", rule(effect=effect) + SLICES + NEW + running("team-a/one")) == []


def test_rule_ends_no_pods_on_other_devices(findings_of):
    text = rule("{driver: gpu.nvidia.com, pool: node-a, device: gpu-1}", "NoExecute")
    assert findings_of("GA263", text + SLICES + NEW + running("team-a/one")) == []


def test_pods_that_tolerate_the_taint_are_not_ended(findings_of):
    tolerating = running("team-a/one", tolerations="[{operator: Exists, effect: NoExecute}]")
    assert findings_of("GA263", rule(effect="NoExecute") + SLICES + NEW + tolerating) == []


def test_pods_that_the_rule_ends_already_are_not_reported_again(findings_of):
    before = "--- # before\n" + rule(effect="NoExecute")
    changed = rule(effect="NoExecute", key="example.com/other")
    assert findings_of("GA263", changed + before + SLICES + NEW + running("team-a/one")) == []


@pytest.mark.parametrize("key", ["gpu.nvidia.com/xid", "gpu.nvidia.com/other", "compute-domain.nvidia.com/x"])
def test_key_of_a_driver_is_reported(findings_of, key):
    (found,) = findings_of("GA264", rule(key=key))
    assert key in found


def test_own_key_is_not_reported(findings_of):
    assert findings_of("GA264", rule()) == []


def test_webhook_is_called_for_rules(examined):
    found = examined(rule("{}", "NoExecute"), entry="claims")
    assert [each.rule.id for each in found] == ["GA262"]


def test_malformed_rule_breaks_no_rule_by_an_error(examined):
    document = libyaml.load(rule())
    for spec in (None, [], {"taint": []}, {"taint": {"key": 1, "effect": []}}, {"deviceSelector": "x", "taint": None}):
        examined(json.dumps({**document, "spec": spec}))
