"""Features of Kubernetes are on by version, or where a stored object has a field that only the feature lets through."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from policies.kubernetes.versions import Feature, Stage, proven_features
from policies.kubernetes.view import UNKNOWN
from tests.explain import conftest as k8s
from webhook.cluster.manifests import ManifestsView

ROOT = Path(__file__).parents[2]
LISTS = {"resource.kubernetes.io/numaNode": {"ints": [0]}}


def view(*objects, version=""):
    return ManifestsView([*objects, *([{"serverVersion": {"gitVersion": version}}] if version else [])])


def with_field(**fields):
    return k8s.resource_slice([{"name": "gpu-0", **fields}])


@pytest.mark.parametrize(
    ("version", "on"), [("", UNKNOWN), ("v1.34.4", False), ("v1.35.0", False), ("v1.36.2", True), ("v1.37.0", True)]
)
def test_version_tells_what_is_on_by_default(version, on):
    assert Feature.DRAPartitionableDevices.is_on(view(k8s.resource_slice(k8s.gpus(1)), version=version)) is on


PROOFS = [
    (Feature.DRAExtendedResource, k8s.device_class(extendedResourceName="nvidia.com/gpu")),
    (Feature.DRAPartitionableDevices, k8s.resource_slice([], node_name="", sharedCounters=[{"name": "gpu-0"}])),
    (Feature.DRAPartitionableDevices, k8s.resource_slice([], node_name="", perDeviceNodeSelection=True)),
    (Feature.DRAPartitionableDevices, with_field(consumesCounters=[{"counterSet": "gpu-0"}])),
    (Feature.DRAPartitionableDevices, with_field(basic={"consumesCounters": [{"counterSet": "gpu-0"}]})),
    (Feature.DRAConsumableCapacity, with_field(allowMultipleAllocations=True)),
    (Feature.DRADeviceTaints, with_field(taints=[{"key": "broken", "effect": "NoSchedule"}])),
    (Feature.DRADeviceTaintRules, {**k8s.taint_rule(), "status": {"conditions": [{"type": "EvictionInProgress"}]}}),
    (Feature.DRADeviceBindingConditions, with_field(bindingConditions=["ready"])),
    (Feature.DRAListTypeAttributes, with_field(attributes=LISTS)),
]


@pytest.mark.parametrize(("feature", "document"), PROOFS)
@pytest.mark.parametrize("version", ["", "v1.34.4"])
def test_stored_field_proves_its_feature(feature, document, version):
    assert feature.is_on(view(document, version=version)) is True


def test_table_names_a_field_for_each_feature_that_one_proves():
    proven = frozenset().union(*(proven_features(view(document)) for _, document in PROOFS))
    assert proven == {feature for feature in Feature if feature.value.shown_by}


GATED = {
    "serverVersion": {"gitVersion": "v1.36.2"},
    "featureGates": {"DRADeviceTaints": False, "GenericWorkload": True},
}


def test_gate_that_the_api_server_shows_is_stronger_than_version_and_stored_fields():
    shown = ManifestsView([GATED, with_field(taints=[{"key": "broken", "effect": "NoSchedule"}])])
    assert (Feature.DRADeviceTaints.is_on(shown), Feature.GenericWorkload.is_on(shown)) == (False, True)
    assert Feature.DRAPartitionableDevices.is_on(shown) is True


@pytest.mark.parametrize(
    ("version", "gates", "complete"),
    [
        ("v1.35.0", {"DRAExtendedResource": True}, False),
        ("v1.36.2", {}, True),
        ("v1.36.2", {"DRAExtendedResource": False}, False),
    ],
)
def test_feature_is_complete_where_it_is_on_by_default_and_not_off(version, gates, complete):
    shown = ManifestsView([{"serverVersion": {"gitVersion": version}, "featureGates": gates}])
    assert Feature.DRAExtendedResource.is_complete(shown) is complete


def test_gates_of_a_kubelet_are_not_those_of_the_api_server():
    kubelet = {
        "kind": "KubeletConfiguration",
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "featureGates": {"A": True},
    }
    assert ManifestsView([kubelet]).feature_gates() == {}


def test_plain_devices_prove_nothing():
    known = view(k8s.resource_slice(k8s.gpus(1)), k8s.device_class(), version="v1.34.4")
    proven = [feature for feature in Feature if feature.value.shown_by]
    assert {feature.is_on(known) for feature in proven} == {False}


def test_feature_that_no_version_has_on_is_unknown_without_a_version():
    assert Feature.DRAListTypeAttributes.is_on(view()) is UNKNOWN


@pytest.mark.parametrize(
    ("feature", "stages"),
    [
        (Feature.DRAExtendedResource, [None, Stage.ALPHA, Stage.ALPHA, Stage.BETA, Stage.GA, Stage.GA]),
        (Feature.DRADeviceTaintRules, [None, None, Stage.ALPHA, Stage.BETA_OFF, Stage.GA, Stage.GA]),
        (Feature.ResourceV1Beta1, [*[Stage.BETA_OFF] * 5, Stage.REMOVED]),
        (Feature.CountersInOwnSlices, [None, None, *[Stage.ALWAYS] * 4]),
    ],
)
def test_stage_changes_with_the_version(feature, stages):
    assert [feature.stage_in((1, minor)) for minor in range(33, 39)] == stages


@pytest.mark.parametrize("feature", Feature, ids=lambda feature: feature.name)
def test_stages_of_a_feature_are_in_order_and_change(feature):
    minors, stages = list(feature.value.stages), list(feature.value.stages.values())
    assert minors == sorted(minors)
    assert all(before is not after for before, after in pairwise(stages))


def test_row_says_that_it_is_not_read_exactly_if_no_code_asks_it():
    sources = [path for folder in ("policies", "webhook") for path in (ROOT / folder).rglob("*.py")]
    others = [path.read_text() for path in sources if path != ROOT / "policies/kubernetes/versions.py"]
    asked = {name for text in others for name in re.findall(r"\bFeature\.(\w+)", text)}
    assert {each.name for each in Feature if each.value.reading.startswith("Not read yet: ")} == {
        each.name for each in Feature if each.name not in asked
    }
