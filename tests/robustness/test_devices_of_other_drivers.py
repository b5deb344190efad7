"""A device of another driver is not a GPU, whatever the name of its DeviceClass and however it is requested."""

import pytest

from policies.admission import review
from policies.rules.request import Request
from policies.rules.settings import Access, GPUAdmissionPolicy, Placement
from testbed import libyaml
from tests.fleet.fleet_objects import (
    EITHER,
    GPU,
    IMPLICIT,
    NVIDIAS,
    OTHER,
    claim,
    cluster,
    container,
    device_class,
    exactly,
    first_available,
    pod,
    template,
)

DENY = GPUAdmissionPolicy(access=Access(mode="deny"))
NAMES = ["fast.example.com", "fast.gpu.nvidia.com", "mig-1g-12gb.gpu.nvidia.com", "vfio.gpu.nvidia.com"]
VISIBLE = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
BY_TEMPLATE = {"name": "gpu", "resourceClaimTemplateName": "t"}
BY_CLAIM = {"name": "gpu", "resourceClaimName": "c"}
WAYS = {
    "extended resource": lambda _: (pod(container(limits={"example.com/fast": 1}, env=VISIBLE)), []),
    "implicit name": lambda name: (pod(container(limits={IMPLICIT + name: 1}, env=VISIBLE)), []),
    "claim": lambda name: (referring(BY_CLAIM), [claim(exactly(name))]),
    "template": lambda name: (referring(BY_TEMPLATE), [template(exactly(name))]),
    "prioritized list": lambda name: (referring(BY_TEMPLATE), [template(first_available(name, name))]),
}


def referring(entry, **reference):
    return pod(container(claims=[{"name": "gpu", **reference}], env=VISIBLE), claims=[entry])


def reviewed(asking, *objects, settings=DENY):
    node = libyaml.load("{apiVersion: v1, kind: Node, metadata: {name: a}, status: {allocatable: {cpu: 8}}}")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a"}}
    document = {"apiVersion": "v1", "kind": "Pod", **asking}
    return review(Request(document, namespace="team-a"), cluster(node, namespace, *objects), settings)


def refused_by(asking, *objects):
    return {each.rule.id for each in reviewed(asking, *objects).denials}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("way", WAYS)
def test_device_of_another_driver_beside_visible_devices_is_refused(way, name):
    asking, objects = WAYS[way](name)
    assert refused_by(asking, device_class(name, OTHER, extended="example.com/fast"), *objects) == {"GA601"}


@pytest.mark.parametrize("name", ["nvidia.com/gpu", "nvidia.com/gpu.shared", "nvidia.com/mig-1g.5gb"])
def test_device_of_another_driver_under_a_name_of_the_device_plugin_is_refused(name):
    asking = pod(container(limits={name: 1}, env=VISIBLE))
    assert refused_by(asking, device_class("fast.example.com", OTHER, extended=name)) == {"GA602"}


def test_claim_whose_selectors_exclude_gpus_is_refused():
    request = exactly("any.example.com", OTHER)
    assert refused_by(referring(BY_CLAIM), device_class("any.example.com"), claim(request)) == {"GA601"}


def test_claim_that_another_driver_can_meet_is_refused():
    objects = [*NVIDIAS, device_class("fast.example.com", OTHER), device_class("any.example.com")]
    asking = referring(BY_CLAIM)
    assert refused_by(asking, claim(first_available("fast.example.com", "gpu.nvidia.com")), *objects) == {"GA602"}
    assert refused_by(asking, claim(exactly("any.example.com")), *objects) == {"GA602"}
    assert refused_by(asking, claim(exactly("any.example.com", EITHER)), *objects) == {"GA602"}


@pytest.mark.parametrize("entry", [BY_CLAIM, BY_TEMPLATE, {"name": "gpu"}], ids=["claim", "template", "nothing"])
def test_claim_that_is_created_after_the_pod_is_refused(entry):
    assert refused_by(referring(entry), *NVIDIAS) == {"GA602"}


def test_class_that_is_created_after_the_pod_is_refused():
    assert refused_by(referring(BY_CLAIM), claim(exactly("gpu.nvidia.com"))) == {"GA602"}
    assert refused_by(pod(container(limits={IMPLICIT + "gpu.nvidia.com": 1}, env=VISIBLE))) == {"GA602"}


def test_container_that_refers_to_another_request_of_the_claim_is_refused():
    requests = [exactly("gpu.nvidia.com", name="gpu"), exactly("fast.example.com", name="fast")]
    objects = [*NVIDIAS, device_class("fast.example.com", OTHER), claim(*requests)]
    assert refused_by(referring(BY_CLAIM, request="fast"), *objects) == {"GA601"}
    assert refused_by(referring(BY_CLAIM, request="gpu"), *objects) == {"GA602"}


def test_device_nodes_beside_a_claim_are_refused():
    asking = referring(BY_CLAIM)
    asking["spec"]["volumes"] = [{"name": "node", "hostPath": {"path": "/dev/nvidia0"}}]
    main = asking["spec"]["containers"][0]
    main |= {"env": [], "volumeMounts": [{"name": "node", "mountPath": "/x"}]}
    assert refused_by(asking, device_class("any.example.com"), claim(exactly("any.example.com"))) == {"GA604"}
    assert refused_by(asking, device_class("any.example.com", GPU), claim(exactly("any.example.com"))) == {"GA604"}


@pytest.mark.parametrize("way", ["extended resource", "implicit name"])
def test_class_of_ones_own_for_gpus_passes_whatever_its_name(way):
    asking, objects = WAYS[way]("fast.example.com")
    answer = reviewed(asking, device_class("fast.example.com", GPU, extended="example.com/fast"), *objects)
    assert answer.allowed
    assert [each.rule.id for each in answer.findings if each.rule.id.startswith("GA6")] == ["GA602"]


@pytest.mark.parametrize("way", WAYS)
def test_class_named_like_nvidias_tolerates_no_taints_of_gpu_nodes(way):
    asking, objects = WAYS[way]("fast.gpu.nvidia.com")
    for each in asking["spec"]["containers"]:
        each.pop("env")
    settings = GPUAdmissionPolicy(placement=Placement(tolerate_gpu_nodes="Always"))
    other_class = device_class("fast.gpu.nvidia.com", OTHER, extended="example.com/fast")
    other = reviewed(asking, other_class, *objects, settings=settings)
    assert not other.object["spec"].get("tolerations")
    own = device_class("fast.gpu.nvidia.com", GPU, extended="example.com/fast")
    assert reviewed(asking, own, *objects, settings=settings).object["spec"].get("tolerations")


@pytest.mark.parametrize("entry", [BY_CLAIM, BY_TEMPLATE], ids=["claim", "template"])
def test_claim_that_can_be_replaced_by_an_empty_one_excuses_no_visible_devices(entry):
    # A pod with a scheduling gate names it, then it is deleted and created anew without devices.
    objects = device_class("h100", GPU), claim(exactly("h100")), template(exactly("h100"))
    assert refused_by(referring(entry), *objects) == {"GA602"}
