"""matchConditions for ConfigMaps and nodes."""

import pytest

from tests.deploy.match_conditions import Question, called


def labelled(kind, labels=None, **fields):
    return {"kind": kind, "metadata": {"name": "n"} | ({"labels": labels} if labels is not None else {}), **fields}


def config_map(namespace, labels=None, **fields):
    document = labelled("ConfigMap", labels, **fields)
    return {**document, "metadata": {**document["metadata"], "namespace": namespace}}


def limits(kind, **spec):
    return labelled(kind, spec=spec)


LABEL = {"gpu-admission.io/config": "device-plugin"}
CONFIGURATION = {
    "cluster policy": (labelled("ClusterPolicy"), labelled("ClusterPolicy"), True),
    "deleted cluster policy": (None, labelled("ClusterPolicy"), True),
    "settings": (labelled("GPUAdmissionPolicy"), None, True),
    "settings put right": (labelled("GPUAdmissionPolicy"), labelled("GPUAdmissionPolicy"), True),
    "quota": (labelled("GPUQuota"), None, True),
    "config map elsewhere": (config_map("a", data={"a": "b"}), None, False),
    "with our label": (config_map("a", LABEL, data={}), None, True),
    "of the operator": (config_map("gpu-operator"), None, True),
    "of the operator of OpenShift": (config_map("nvidia-gpu-operator"), None, True),
    "deleted": (None, config_map("gpu-operator", data={"a": "b"}), True),
    "deleted elsewhere": (None, config_map("a"), False),
    "unchanged": (config_map("gpu-operator", data={"a": "b"}), config_map("gpu-operator", data={"a": "b"}), False),
    "changed": (config_map("gpu-operator", data={"a": "b"}), config_map("gpu-operator", data={"a": "c"}), True),
    "emptied": (config_map("gpu-operator"), config_map("gpu-operator", data={"a": "c"}), True),
    "label taken away": (config_map("a", {}), config_map("a", LABEL), True),
    "native quota": (limits("ResourceQuota", hard={"nvidia.com/gpu": 1}), None, True),
    "native quota without devices": (limits("ResourceQuota", hard={"cpu": 1, "pods": 1}), None, False),
    "empty native quota": (labelled("ResourceQuota"), None, False),
    "native quota applied again": (
        limits("ResourceQuota", hard={"a/b": 1}),
        {**limits("ResourceQuota", hard={"a/b": 1}), "status": {"used": {}}},
        False,
    ),
    "native quota changed": (limits("ResourceQuota", hard={"a/b": 1}), limits("ResourceQuota", hard={"a/b": 2}), True),
    "limit range": (limits("LimitRange", limits=[{"type": "Pod"}, {"max": {"a/b": 1}}]), None, True),
    "default of a limit range": (limits("LimitRange", limits=[{"default": {"a/b": 1}}]), None, True),
    "limit range without devices": (limits("LimitRange", limits=[{"max": {"cpu": 1}}]), None, False),
}


@pytest.mark.parametrize(("new", "old", "expected"), CONFIGURATION.values(), ids=CONFIGURATION)
def test_configuration_is_what_the_operator_reads(webhooks, new, old, expected):
    assert called(webhooks["validating", "configuration"], Question(new, old)) is expected


MIG = {"nvidia.com/mig.config": "all-1g.10gb"}
NODES = {
    "registered without labels": (labelled("Node"), None, False),
    "registered with one": (labelled("Node", MIG), None, True),
    "set": (labelled("Node", MIG), labelled("Node", {}), True),
    "first label of all": (labelled("Node", MIG), labelled("Node"), True),
    "changed": (labelled("Node", MIG), labelled("Node", {"nvidia.com/mig.config": "all-disabled"}), True),
    "taken away": (labelled("Node"), labelled("Node", MIG), True),
    "the same": (labelled("Node", {**MIG, "a": "b"}), labelled("Node", MIG), False),
    "heartbeat": (labelled("Node", MIG, status={"a": 1}), labelled("Node", MIG, status={"a": 2}), False),
}


@pytest.mark.parametrize(("new", "old", "expected"), NODES.values(), ids=NODES)
def test_nodes_match_when_a_watched_label_changes(webhooks, new, old, expected):
    assert called(webhooks["validating", "nodes"], Question(new, old)) is expected


DRA = {"gpu-admission.io/dra": "enabled"}
NAMESPACES = {
    "created without labels": (labelled("Namespace"), None, False),
    "created with it": (labelled("Namespace", DRA), None, True),
    "set": (labelled("Namespace", {**DRA, "a": "b"}), labelled("Namespace", {"a": "b"}), True),
    "first label of all": (labelled("Namespace", DRA), labelled("Namespace"), True),
    "taken away": (labelled("Namespace"), labelled("Namespace", DRA), True),
    "strategy": (
        labelled("Namespace", DRA | {"gpu-admission.io/dra-strategy": "rename"}),
        labelled("Namespace", DRA),
        True,
    ),
    "quota": (labelled("Namespace", DRA | {"gpu-admission.io/quota": "enforced"}), labelled("Namespace", DRA), False),
    "the same": (labelled("Namespace", {**DRA, "a": "b"}), labelled("Namespace", DRA), False),
}


@pytest.mark.parametrize(("new", "old", "expected"), NAMESPACES.values(), ids=NAMESPACES)
def test_namespaces_match_when_their_choice_of_conversion_changes(webhooks, new, old, expected):
    assert called(webhooks["validating", "opt-in"], Question(new, old)) is expected
