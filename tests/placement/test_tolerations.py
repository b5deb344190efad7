"""Tolerations of GPU pods: for the taint of GPU nodes and for those of the settings."""

import jsonpatch
import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.kubernetes.nodes import tolerates_key, tolerates_taint
from policies.kubernetes.pods import Pod
from policies.placement import tolerate_gpu_nodes
from policies.rules.patch import Editor
from policies.rules.settings import DEFAULTS, GPUAdmissionPolicy, Placement, TaintTolerated

GPU = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
ANY_SKU = {"key": "sku", "operator": "Exists", "effect": "NoSchedule"}
SKU = {"key": "sku", "operator": "Equal", "value": "gpu", "effect": "NoSchedule"}


def policy(*taints):
    return GPUAdmissionPolicy(placement=Placement(tolerations=taints))


def document(tolerations=None):
    spec = {"containers": [{"name": "main"}]} | ({} if tolerations is None else {"tolerations": tolerations})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


def patch(tolerations=None, settings=DEFAULTS, namespace="team-a"):
    pod = Pod.read(document(tolerations))
    edits = Editor(pod.document)
    tolerate_gpu_nodes(pod, edits, namespace, settings)
    return edits.operations


def added(*tolerations):
    """The patch for a pod that has tolerations already."""
    return [{"op": "add", "path": "/spec/tolerations/-", "value": each} for each in tolerations]


def made(*tolerations):
    """The patch for a pod that has none."""
    return [{"op": "add", "path": "/spec/tolerations", "value": list(tolerations)}]


def test_taint_of_gpu_nodes_is_tolerated():
    assert patch() == made(GPU)


def test_null_tolerations_are_none():
    pod = document()
    pod["spec"]["tolerations"] = None
    edits = Editor(pod)
    tolerate_gpu_nodes(Pod.read(pod), edits, "team-a", DEFAULTS)
    assert edits.document["spec"]["tolerations"] == [GPU]


def test_toleration_comes_after_the_users():
    assert patch([{"key": "team", "value": "a"}]) == added(GPU)


@pytest.mark.parametrize(
    "toleration",
    [
        pytest.param(GPU, id="the-same"),
        pytest.param({"key": "nvidia.com/gpu", "operator": "Exists"}, id="every-effect"),
        pytest.param({"operator": "Exists"}, id="everything"),
        pytest.param({"operator": "Exists", "effect": "NoSchedule"}, id="every-key"),
    ],
)
def test_what_is_tolerated_is_not_added(toleration):
    assert patch([toleration]) == []


@pytest.mark.parametrize(
    "toleration",
    [
        pytest.param({**GPU, "operator": "Equal", "value": "present"}, id="one-value"),
        pytest.param({**GPU, "effect": "NoExecute"}, id="another-effect"),
        pytest.param({**GPU, "key": "nvidia.com/mig-1g.5gb"}, id="another-key"),
    ],
)
def test_what_tolerates_less_is_not_enough(toleration):
    assert patch([toleration]) == added(GPU)


def test_taint_of_settings_is_tolerated_whatever_its_value():
    assert patch(settings=policy(TaintTolerated("sku"))) == made(GPU, ANY_SKU)


def test_taint_with_a_value_is_tolerated_with_that_value():
    assert patch(settings=policy(TaintTolerated("sku", "gpu"))) == made(GPU, SKU)


def test_soft_taint_is_tolerated_as_such():
    taint = TaintTolerated("sku", effect="PreferNoSchedule")
    assert patch(settings=policy(taint)) == made(GPU, {**ANY_SKU, "effect": "PreferNoSchedule"})


def test_tolerations_have_the_order_of_the_settings():
    settings = policy(*(TaintTolerated(key) for key in ("b", "c", "a")))
    assert [each["value"]["key"] for each in patch([{"key": "team"}], settings)] == ["nvidia.com/gpu", "b", "c", "a"]


@pytest.mark.parametrize(
    ("namespace", "patterns", "tolerated"),
    [
        ("team-a", ("*",), True),
        ("team-a", ("team-a",), True),
        ("team-a", ("other", "team-?"), True),
        ("team-b", ("team-a",), False),
        ("", ("team-*",), False),
    ],
)
def test_reserved_taint_is_tolerated_in_its_namespaces_only(namespace, patterns, tolerated):
    settings = policy(TaintTolerated("sku", "gpu", namespaces=patterns))
    assert patch([], settings, namespace) == added(GPU, *[SKU] * tolerated)


@pytest.mark.parametrize(
    "toleration",
    [
        pytest.param(SKU, id="the-same"),
        pytest.param({"key": "sku", "value": "gpu"}, id="operator-left-out"),
        pytest.param(ANY_SKU, id="every-value"),
    ],
)
def test_value_that_is_tolerated_is_not_added(toleration):
    assert patch([GPU, toleration], policy(TaintTolerated("sku", "gpu"))) == []


@pytest.mark.parametrize(
    "toleration",
    [
        pytest.param({**SKU, "value": "cpu"}, id="another-value"),
        pytest.param({"key": "sku", "operator": "Exists", "effect": "PreferNoSchedule"}, id="another-effect"),
        pytest.param({"key": "sku", "operator": "Gt", "value": "5"}, id="comparison"),
    ],
)
def test_value_that_is_not_tolerated_is_added(toleration):
    assert patch([GPU, toleration], policy(TaintTolerated("sku", "gpu"))) == added(SKU)


def test_one_value_is_not_every_value():
    assert patch([GPU, SKU], policy(TaintTolerated("sku"))) == added(ANY_SKU)


def test_taint_that_settings_name_twice_is_tolerated_once():
    settings = policy(TaintTolerated("sku"), TaintTolerated("sku", "gpu"), TaintTolerated("sku"))
    assert patch(settings=settings) == made(GPU, ANY_SKU)


def test_gpu_taint_in_the_settings_adds_nothing():
    assert patch(settings=policy(TaintTolerated("nvidia.com/gpu"))) == made(GPU)


KEYS = st.sampled_from(["nvidia.com/gpu", "sku", "team", "a"])
VALUES = st.sampled_from(["", "gpu", "a"])
TOLERATIONS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "key": KEYS | st.just(""),
            "operator": st.sampled_from(["Exists", "Equal", "Gt", ""]),
            "value": VALUES,
            "effect": st.sampled_from(["NoSchedule", "PreferNoSchedule", "NoExecute", ""]),
            "tolerationSeconds": st.just(60),
        },
    ),
    max_size=4,
)
TAINTS = st.builds(
    TaintTolerated,
    KEYS,
    VALUES,
    st.sampled_from(["NoSchedule", "PreferNoSchedule"]),
    st.sampled_from([("*",), ("team-a",), ("team-b",)]),
)
POLICIES = st.lists(TAINTS, max_size=5).map(lambda taints: policy(*taints))


def tolerated(tolerations, settings):
    """The pod's tolerations after the patch, by an independent JSON Patch."""
    return jsonpatch.apply_patch(document(tolerations), patch(tolerations, settings))["spec"]["tolerations"]


@given(TOLERATIONS, POLICIES)
def test_second_time_adds_nothing(tolerations, settings):
    assert patch(tolerated(tolerations, settings), settings) == []


@given(TOLERATIONS, POLICIES)
def test_own_tolerations_stay_as_they_are_and_come_first(tolerations, settings):
    assert tolerated(tolerations, settings)[: len(tolerations)] == tolerations


@given(TOLERATIONS, POLICIES)
def test_no_execute_is_never_tolerated(tolerations, settings):
    new = tolerated(tolerations, settings)[len(tolerations) :]
    assert all(each["effect"] in ("NoSchedule", "PreferNoSchedule") for each in new)


@given(TOLERATIONS, POLICIES)
def test_everything_wanted_is_tolerated(tolerations, settings):
    result = tolerated(tolerations, settings)
    assert tolerates_key(result, "nvidia.com/gpu", "NoSchedule")
    for taint in settings.placement.tolerations:
        if taint.holds_in("team-a"):
            assert tolerates_taint(result, {"key": taint.key, "value": taint.value, "effect": taint.effect})


@given(TOLERATIONS, POLICIES)
def test_nothing_reserved_to_others_is_tolerated(tolerations, settings):
    """What is added is the toleration of all GPU nodes, or that of a taint that holds in the namespace."""
    own = {(each.key, each.value, each.effect) for each in settings.placement.tolerations if each.holds_in("team-a")}
    new = tolerated(tolerations, settings)[len(tolerations) :]
    assert all(each == GPU or (each["key"], each.get("value", ""), each["effect"]) in own for each in new)
