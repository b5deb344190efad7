"""Time-slicing and MPS for every known product: no review finds anything, and the limits are those of the rules."""

import pytest

from policies.analyses.generate.documents import GenerationError, Target
from policies.analyses.generate.node_configurations import generate_sharing
from policies.nvidia.known_products import KNOWN_PRODUCTS
from testbed import libyaml

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
