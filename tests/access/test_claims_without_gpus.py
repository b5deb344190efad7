"""Claims without a GPU do not count as a GPU request."""

import json

import pytest

VISIBLE = {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}
DAEMON = "compute-domain-daemon.nvidia.com"
CHANNEL = "compute-domain-default-channel.nvidia.com"
V1, V1BETA1 = "v1", "v1beta1"
DOMAIN = "device.driver == 'compute-domain.nvidia.com'"
NVIDIAS = "device.driver == 'gpu.nvidia.com'"


def device_class(name, selector, **spec):
    metadata = {"name": name}
    spec = {"selectors": [{"cel": {"expression": selector}}], **spec}
    return json.dumps({"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": spec})


CLASSES = "\n---\n".join(
    [
        *(device_class(name, DOMAIN) for name in (DAEMON, CHANNEL, "fast.compute-domain.nvidia.com")),
        *(device_class(name, NVIDIAS) for name in ("gpu.nvidia.com", "mig.nvidia.com")),
    ]
)


def known(*documents):
    """A cluster with NVIDIA's classes."""
    return "\n---\n".join([CLASSES, *documents])


def exactly(class_name, name="a"):
    return {"name": name, "exactly": {"deviceClassName": class_name}}


def flat(class_name, name="a"):
    return {"name": name, "deviceClassName": class_name}


def first_of(*classes, name="a"):
    return {"name": name, "firstAvailable": [flat(each, f"s{index}") for index, each in enumerate(classes)]}


def template(spec, version=V1, name="t", namespace="team-a"):
    return json.dumps(
        {
            "apiVersion": f"resource.k8s.io/{version}",
            "kind": "ResourceClaimTemplate",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"spec": spec},
        }
    )


def claim(spec, name="c"):
    metadata = {"name": name, "namespace": "team-a"}
    document = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec}
    return json.dumps(document)


def requesting(*requests):
    return {"devices": {"requests": list(requests)}}


def pod(*references, claims=({"name": "gpu", "resourceClaimTemplateName": "t"},), **container):
    resources = {"claims": list(references) or [{"name": "gpu"}]}
    fields = {"name": "train", "image": "ubuntu", "resources": resources, "env": [VISIBLE], **container}
    return {"containers": [fields], "resourceClaims": list(claims)}


def test_variable_beside_a_claim_without_gpus_is_reported(findings_of):
    assert findings_of(pod(), cluster=known(template(requesting(exactly(CHANNEL))))) == [
        (
            'GA601 deny spec.containers[0].env[0].value: NVIDIA_VISIBLE_DEVICES is "all" in '
            'container "train", which requests no GPU: NVIDIA\'s container runtime gives it every '
            "GPU of the node; request nvidia.com/gpu: 1 in resources.limits, or set NVIDIA_VISIBLE_DEVICES to void"
        )
    ]


def test_runtime_and_mounts_beside_a_claim_without_gpus_are_reported(rules):
    mounts = [{"name": "node", "mountPath": "/x"}]
    spec = pod(env=[], volumeMounts=mounts)
    spec |= {"runtimeClassName": "nvidia", "volumes": [{"name": "node", "hostPath": {"path": "/dev/nvidia0"}}]}
    assert rules(spec, cluster=known(template(requesting(exactly(CHANNEL))))) == ["GA603", "GA604"]


@pytest.mark.parametrize(
    ("spec", "version", "rule"),
    [
        (requesting(exactly("gpu.nvidia.com")), V1, "GA602"),
        (requesting(flat("gpu.nvidia.com")), V1BETA1, "GA602"),
        (requesting(exactly("mig.nvidia.com")), V1, "GA602"),
        (requesting(exactly("h100.example.com")), V1, "GA602"),
        (requesting(exactly(CHANNEL)), V1, "GA601"),
        (requesting(exactly(DAEMON)), V1, "GA601"),
        (requesting(flat(DAEMON)), V1BETA1, "GA601"),
        (requesting(exactly("fast.compute-domain.nvidia.com")), V1, "GA601"),
        (requesting(exactly("compute-domain.nvidia.com")), V1, "GA602"),
        (requesting(first_of(CHANNEL, "gpu.nvidia.com")), V1, "GA602"),
        (requesting(first_of(CHANNEL, DAEMON)), V1, "GA601"),
        (requesting(exactly(CHANNEL), exactly("gpu.nvidia.com", "b")), V1, "GA602"),
        ({"devices": {}}, V1, "GA601"),
        ({}, V1, "GA601"),
        (requesting(), V1, "GA601"),
        (requesting({"name": "a"}), V1, "GA601"),
        ({"devices": {"requests": "x"}}, V1, "GA601"),
    ],
    ids=str,
)
def test_claim_counts_with_one_request_that_can_be_for_gpus(rules, spec, version, rule):
    assert rules(pod(), cluster=known(template(spec, version))) == [rule]


@pytest.mark.parametrize(("name", "rule"), [("gpu.nvidia.com", "GA602"), (CHANNEL, "GA601")])
def test_claim_by_its_name_counts_alike(rules, name, rule):
    spec = pod(claims=[{"name": "gpu", "resourceClaimName": "c"}])
    assert rules(spec, cluster=known(claim(requesting(exactly(name))))) == [rule]


@pytest.mark.parametrize(
    "named",
    [
        {"resourceClaimTemplateName": "missing"},
        {"resourceClaimName": "unknown"},
        {"resourceClaimTemplateName": "elsewhere"},
        {"laterReference": "x"},
        {},
    ],
    ids=str,
)
def test_claim_that_cannot_be_seen_counts(rules, named):
    nothing = requesting(exactly(CHANNEL))
    cluster = f"{template(nothing)}\n---\n{template(nothing, name='elsewhere', namespace='team-b')}"
    assert rules(pod(claims=[{"name": "gpu", **named}]), cluster=cluster) == ["GA602"]


@pytest.mark.parametrize(
    ("reference", "rule"),
    [
        ({"name": "gpu"}, "GA602"),
        ({"name": "gpu", "request": ""}, "GA602"),
        ({"name": "gpu", "request": "device"}, "GA602"),
        ({"name": "gpu", "request": "channel"}, "GA601"),
        ({"name": "gpu", "request": "missing"}, "GA601"),
        ({"name": "other"}, "GA601"),
        ({"name": []}, "GA601"),
        ("gpu", "GA601"),
    ],
    ids=str,
)
def test_container_has_what_it_refers_to(rules, reference, rule):
    both = requesting(exactly(CHANNEL, "channel"), exactly("gpu.nvidia.com", "device"))
    assert rules(pod(reference), cluster=known(template(both))) == [rule]


def test_request_of_a_claim_that_cannot_be_seen_counts(rules):
    assert rules(pod({"name": "gpu", "request": "device"})) == ["GA602"]


def test_claim_that_no_container_refers_to_is_no_request(rules):
    assert rules(pod(resources={}), cluster=template(requesting(exactly("gpu.nvidia.com")))) == ["GA601"]


@pytest.mark.parametrize(
    ("resource", "rule"),
    [
        (f"deviceclass.resource.kubernetes.io/{CHANNEL}", "GA601"),
        ("deviceclass.resource.kubernetes.io/gpu.nvidia.com", "GA602"),
        ("example.com/channel", "GA601"),
    ],
)
def test_resource_that_stands_for_a_class_counts_as_a_claim_does(rules, resource, rule):
    mapped = device_class("fast.compute-domain.nvidia.com", DOMAIN, extendedResourceName="example.com/channel")
    assert rules(pod(resources={"limits": {resource: 1}}, claims=[]), cluster=known(mapped)) == [rule]
