"""Demands of pods: the pieces of a charge."""

import pytest

from policies.fleet.pod_claims import template_claims
from policies.quota.demands.pods import demands_of_pod, holdings_of_pod, priority_class_of
from policies.rules.charges import OWN
from policies.rules.settings import DEFAULTS

SETTINGS = DEFAULTS.quota
GPU = "nvidia.com/gpu"


def requested(pod, view, namespace="team-a"):
    return demands_of_pod(pod, template_claims(pod.document, namespace, view), view, SETTINGS)


def test_pod_without_gpus_has_no_pieces(pod, example):
    assert requested(pod({"cpu": 1}), example()) == requested(pod(), example())
    assert not requested(pod(), example()).pieces


def test_resources_of_a_pod_are_its_own_piece(pod, example):
    pieces = requested(pod({GPU: 2, "nvidia.com/mig-1g.5gb": 1}), example()).pieces
    assert {name: [demand.count for demand in demands] for name, demands in pieces.items()} == {OWN: [2, 1]}


def test_claim_from_a_template_is_a_piece_of_its_name(pod, template, request_for, example):
    view = example(template(request_for(count=4)), template(request_for("mig.nvidia.com"), name="slice"))
    claims = [
        {"name": "big", "resourceClaimTemplateName": "gpus"},
        {"name": "small", "resourceClaimTemplateName": "slice"},
    ]
    pieces = requested(pod({GPU: 1}, resourceClaims=claims), view).pieces
    assert {name: [demand.count for demand in demands] for name, demands in pieces.items()} == {
        OWN: [1],
        "big": [4],
        "small": [1],
    }


def test_template_used_twice_is_charged_twice(pod, template, request_for, example):
    claims = [{"name": name, "resourceClaimTemplateName": "gpus"} for name in ("a", "b")]
    assert requested(pod(resourceClaims=claims), example(template(request_for()))).pieces.keys() == {"a", "b"}


def test_named_claim_costs_the_pod_nothing(pod, claim, request_for, example):
    view = example(claim(request_for()))
    result = requested(pod(resourceClaims=[{"name": "gpu", "resourceClaimName": "gpus"}]), view)
    assert (result.pieces, result.problems) == ({}, ())


@pytest.mark.parametrize("seen", ["exists", "can be seen"])
def test_template_that_is_missing_is_reported_and_not_charged(pod, template, request_for, example, seen):
    claims = [{"name": "a", "resourceClaimName": "x"}, {"name": "b", "resourceClaimTemplateName": "gone"}]
    others = [template(request_for())] if seen == "exists" else []
    result = requested(pod(resourceClaims=claims), example(*others))
    (reported,) = result.problems
    assert not result.pieces
    assert str(reported.path) == "spec.resourceClaims[1].resourceClaimTemplateName"
    assert (reported.message, reported.remedy) == (
        f'no ResourceClaimTemplate "gone" {seen} in team-a, so nothing is charged for it now',
        "create the template first; its claim is charged when it is made",
    )


def test_template_of_another_namespace_is_missing(pod, template, request_for, example):
    view = example(template(request_for()))
    entry = {"name": "a", "resourceClaimTemplateName": "gpus"}
    assert requested(pod(resourceClaims=[entry]), view, "team-b").problems


def test_class_that_a_template_names_and_that_is_missing_is_reported_at_the_pod(pod, template, request_for, example):
    entry = {"name": "a", "resourceClaimTemplateName": "gpus"}
    result = requested(pod(resourceClaims=[entry]), example(template(request_for("tpu.example.com"))))
    (reported,) = result.problems
    assert result.pieces["a"][0].is_open
    assert (reported.message, reported.remedy) == (
        (
            'there is no DeviceClass "tpu.example.com", so its GPUs are unknown; the most that they can be is '
            "charged (spec.spec.devices.requests[0].exactly.deviceClassName)"
        ),
        (
            'in ResourceClaimTemplate "gpus", install the driver that brings it, or write the name of a class that exists: '
            "gpu.nvidia.com, mig.nvidia.com, vfio.gpu.nvidia.com"
        ),
    )


def test_implicit_name_of_a_missing_class_is_reported_at_its_path(pod, example):
    (reported,) = requested(pod({"deviceclass.resource.kubernetes.io/h100": 1}), example()).problems
    path = "spec.containers[0].resources.limits[deviceclass.resource.kubernetes.io/h100]"
    assert (str(reported.path), reported.message, reported.remedy) == (
        path,
        'there is no DeviceClass "h100", so its devices are unknown; whole GPUs are charged',
        "install the driver that brings it, or write the name of a class that exists: gpu.nvidia.com, mig.nvidia.com, vfio.gpu.nvidia.com",
    )


@pytest.mark.parametrize(("spec", "name"), [({}, ""), ({"priorityClassName": "batch"}, "batch")])
def test_demands_have_the_priority_class_of_the_pod(pod, template, request_for, example, spec, name):
    claims = [{"name": "a", "resourceClaimTemplateName": "gpus"}]
    gpu_pod = pod({GPU: 1}, resourceClaims=claims, **spec)
    pieces = requested(gpu_pod, example(template(request_for(allocationMode="All")))).pieces
    assert priority_class_of(gpu_pod) == name
    assert {each.priority_class for demands in pieces.values() for demand in demands for each in demand.choices} == {
        name
    }


def test_pod_without_a_node_holds_what_it_requests(pod, example):
    gpu_pod = pod({GPU: 1})
    assert holdings_of_pod(gpu_pod, example(), SETTINGS) == requested(gpu_pod, example()).pieces[OWN]


def test_bound_pod_holds_what_its_node_hands_out(pod, example):
    (demand,) = holdings_of_pod(pod({GPU: 1}, nodeName="gpu-h100-01"), example(), SETTINGS)
    assert ({kind.product for kind in demand.kinds}, demand.is_open) == ({"NVIDIA-H100-80GB-HBM3"}, False)
