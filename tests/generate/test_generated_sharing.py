"""Time-slicing and MPS for every known product: no review finds anything, and the limits are those of the rules."""

import json

import pytest

from policies.analyses.generate.documents import GenerationError, Target
from policies.analyses.generate.node_configurations import generate_driver_sharing, generate_sharing
from policies.nvidia.products import KNOWN_PRODUCTS
from testbed import libyaml
from tests.generate.applied_objects import commands

OPERATOR = Target("gpu-operator")


def older(product):
    return product.startswith(("Tesla-P", "Tesla-V"))


def compute(product):
    """Labels of nodes; the operator does not install the driver, which it cannot on those with GeForce GPUs."""
    major = "6" if older(product) else "9"
    return {
        "nvidia.com/gpu.compute.major": major,
        "nvidia.com/gpu.compute.minor": "0",
        "nvidia.com/gpu.deploy.driver": "false",
    }


@pytest.mark.parametrize("product", KNOWN_PRODUCTS)
@pytest.mark.parametrize(("strategy", "replicas"), [("time-slicing", 2), ("time-slicing", 20), ("mps", 2), ("mps", 16)])
def test_review_finds_nothing(applied, product, strategy, replicas):
    generated = generate_sharing(strategy, product, replicas, OPERATOR)
    assert not any(applied(generated, product, **compute(product)))


@pytest.mark.parametrize("product", [each for each in KNOWN_PRODUCTS if not older(each)])
def test_review_with_the_nodes_finds_nothing_in_many_mps_clients(applied, product):
    generated = generate_sharing("mps", product, 48, OPERATOR)
    alone, *with_nodes = applied(generated, product, **compute(product))
    assert ["[GA139]" in each for each in alone] == [True]
    assert not any(with_nodes)
    assert any("review it with --cluster or --live" in remark for remark in generated.remarks)


def test_review_would_find_a_mistake(applied):
    generated = generate_sharing("time-slicing", "T4", 4, OPERATOR)
    generated.document["data"]["tesla-t4"] = generated.document["data"]["tesla-t4"].replace(": 4", ": 1")
    assert all("[GA132]" in str(found) for found in applied(generated, "Tesla-T4")[:3])


@pytest.mark.parametrize("namespace", ["gpu-operator", "nvidia", "kube-system"])
def test_review_finds_nothing_in_other_namespaces(applied, namespace):
    generated = generate_sharing("time-slicing", "T4", 4, Target(namespace))
    assert generated.document["metadata"]["namespace"] == namespace
    assert applied(generated, "Tesla-T4")[0] == []


@pytest.mark.parametrize(("strategy", "field"), [("time-slicing", "timeSlicing"), ("mps", "mps")])
def test_configuration_shares_the_gpus_of_labelled_nodes_only(strategy, field):
    data = generate_sharing(strategy, "T4", 4, OPERATOR).document["data"]
    resource = {"name": "nvidia.com/gpu", "replicas": 4}
    sharing = {field: {"failRequestsGreaterThanOne": True, "resources": [resource]}}
    assert {key: libyaml.load(text) for key, text in data.items()} == {
        "tesla-t4": {"version": "v1", "sharing": sharing},
        "whole-gpus": {"version": "v1"},
    }


@pytest.mark.parametrize(
    ("strategy", "product", "replicas", "error"),
    [
        ("time-slicing", "T4", 1, "is 1; sharing needs at least 2"),
        ("mps", "T4", -3, "is -3; sharing needs at least 2"),
        (
            "time-slicing",
            "T4",
            21,
            "is 21; so many pods rarely fit into the memory of one GPU, which time-slicing does not divide; write 20 or fewer",
        ),
        ("mps", "T4", 49, "is 49; no GPU serves more than 48 MPS clients; write 48 or fewer"),
        (
            "mps",
            "P4,T4",
            17,
            "is 17, and GPUs before Turing serve 16 MPS clients: Tesla-P4; write 16 or fewer",
        ),
    ],
)
def test_number_of_replicas_that_cannot_work_is_refused(strategy, product, replicas, error):
    with pytest.raises(GenerationError) as caught:
        generate_sharing(strategy, product, replicas, OPERATOR)
    assert (caught.value.option, str(caught.value)) == ("--replicas", error)


def plugin_config(**replicas):
    """A ConfigMap of the device plugin with a configuration for each number."""
    configs = {key: generate_sharing("time-slicing", "T4", each, OPERATOR).document for key, each in replicas.items()}
    return {"kind": "ConfigMap", "data": {key: each["data"]["tesla-t4"] for key, each in configs.items()}}


def variable(generated):
    (found,) = generated.document["spec"]["draDriver"]["gpus"]["kubeletPlugin"]["env"]
    return found


def test_driver_shares_as_the_device_plugin_does():
    generated = generate_driver_sharing("", plugin_config(t4=4, l4=4))
    assert variable(generated) == {"name": "CONSUMABLE_SHARES", "value": "4"}
    assert 'consumableShares: "4"' in generated.steps[1].lines


def test_patch_of_a_gpu_cluster_is_the_generated_one():
    generated = generate_driver_sharing("memory")
    (command,) = commands(generated)
    assert json.loads(command[6]) == {"spec": generated.document["spec"]}


def test_different_numbers_of_the_device_plugin_have_no_equal():
    with pytest.raises(GenerationError, match=r'2 shares of .* of "l4"; 4 shares .*write --shares 4, by which no pod'):
        generate_driver_sharing("", plugin_config(t4=4, l4=2))
    assert variable(generate_driver_sharing("4", plugin_config(t4=4, l4=2)))["value"] == "4"


@pytest.mark.parametrize("shares", ["0", "1", "-2", "many", "4.5", "disabled"])
def test_number_that_shares_nothing_is_refused(shares):
    with pytest.raises(GenerationError, match="write a number of at least 2, memory or unlimited"):
        generate_driver_sharing(shares)


@pytest.mark.parametrize("config", [None, {"data": {"a": "version: v1"}}, {"data": None}], ids=repr)
def test_number_must_be_given_or_found(config):
    with pytest.raises(GenerationError, match="--shares 4"):
        generate_driver_sharing("", config)
