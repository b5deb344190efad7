"""Pods that get GPUs: by extended resource, by implicit class name, by claim, and by custom classes."""

import subprocess
import sys
from pathlib import Path

import pytest

from policies.fleet import may_request_gpu, probably_gets_gpu
from policies.kubernetes.pods import Pod
from webhook.cluster.manifests import ManifestsView

IMPLICIT = "deviceclass.resource.kubernetes.io/"
SHIPPED = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
H100 = "device.attributes['gpu.nvidia.com'].productName.startsWith('NVIDIA H100')"


def pod(limits=None, requests=None, claims=None, **spec):
    resources = {"limits": limits or {}, "requests": requests or {}}
    containers = [{"name": "main", "resources": resources}]
    return Pod.read({"metadata": {"name": "a"}, "spec": {"containers": containers, "resourceClaims": claims, **spec}})


def device_class(*expressions, name="h100.example.com", extended=None):
    spec = {"selectors": [{"cel": {"expression": each}} for each in expressions]}
    if extended:
        spec["extendedResourceName"] = extended
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def api_version(requests):
    flat = any("deviceClassName" in each for each in requests)
    return "resource.k8s.io/v1beta1" if flat else "resource.k8s.io/v1"


def template(*requests):
    return {
        "apiVersion": api_version(requests),
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpus", "namespace": "team-a"},
        "spec": {"spec": {"devices": {"requests": list(requests)}}},
    }


def claim(*requests):
    return {
        "apiVersion": api_version(requests),
        "kind": "ResourceClaim",
        "metadata": {"name": "gpus", "namespace": "team-a"},
        "spec": {"devices": {"requests": list(requests)}},
    }


def exactly(name):
    return {"name": "gpu", "exactly": {"deviceClassName": name}}


def gets(gpu_pod, *objects):
    return probably_gets_gpu(gpu_pod.document, "team-a", ManifestsView(objects))


BY_TEMPLATE = pod(claims=[{"name": "gpu", "resourceClaimTemplateName": "gpus"}])
BY_CLAIM = pod(claims=[{"name": "gpu", "resourceClaimName": "gpus"}])


@pytest.mark.parametrize(
    "resource",
    [
        "nvidia.com/gpu",
        "nvidia.com/gpu.shared",
        "nvidia.com/mig-1g.5gb",
        "nvidia.com/mig-1g.5gb.shared",
        f"{IMPLICIT}gpu.nvidia.com",
        f"{IMPLICIT}mig.nvidia.com",
        f"{IMPLICIT}mig-1g-12gb.gpu.nvidia.com",
    ],
)
def test_resource_of_nvidia_is_a_gpu(resource):
    assert gets(pod({resource: 1}))


@pytest.mark.parametrize(
    "resource", ["cpu", "memory", "amd.com/gpu", "nvidia.com/gpus", "nvidia.com/hostdev", f"{IMPLICIT}gpu.amd.com"]
)
def test_other_resource_is_no_gpu(resource):
    assert not gets(pod({resource: 1}))


@pytest.mark.parametrize("amount", [0, "0", "0m", "0Gi", 0.0])
def test_none_of_a_resource_is_no_gpu(amount):
    assert not gets(pod({"nvidia.com/gpu": amount}, {"nvidia.com/gpu": amount}))


def test_invalid_amount_is_left_to_the_api_server():
    assert gets(pod({"nvidia.com/gpu": "many"}))


def test_request_counts_beside_a_limit_of_none():
    assert gets(pod({"nvidia.com/gpu": 1}, {"nvidia.com/gpu": 0}))
    assert gets(pod({"nvidia.com/gpu": 0}, {"nvidia.com/gpu": 1}))


def test_init_container_gets_gpus_as_well():
    init = {"name": "init", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    assert gets(pod(initContainers=[init]))


def test_mention_in_annotations_is_no_request():
    gpu_pod = pod()
    gpu_pod.document["metadata"]["annotations"] = {"nvidia.com/gpu": "1"}
    gpu_pod.document["metadata"]["labels"] = {"nvidia.com/gpu": "1"}
    assert not gets(gpu_pod)


@pytest.mark.parametrize("gpu_pod", [BY_TEMPLATE, BY_CLAIM], ids=["template", "claim"])
@pytest.mark.parametrize(
    ("request_of_claim", "expected"),
    [
        pytest.param(exactly("gpu.nvidia.com"), True, id="exactly"),
        pytest.param({"name": "gpu", "deviceClassName": "mig.nvidia.com"}, True, id="v1beta1"),
        pytest.param(
            {
                "name": "gpu",
                "firstAvailable": [{"deviceClassName": "gpu.amd.com"}, {"deviceClassName": "gpu.nvidia.com"}],
            },
            True,
            id="one-of-several",
        ),
        pytest.param(exactly("gpu.amd.com"), False, id="another-vendor"),
        pytest.param(exactly("compute-domain-daemon.nvidia.com"), False, id="no-gpu-of-nvidia"),
    ],
)
def test_claim_for_a_class_of_nvidia_is_a_gpu(gpu_pod, request_of_claim, expected):
    assert gets(gpu_pod, template(request_of_claim), claim(request_of_claim)) is expected


@pytest.mark.parametrize("gpu_pod", [BY_TEMPLATE, BY_CLAIM], ids=["template", "claim"])
def test_invisible_claim_is_not_a_gpu(gpu_pod):
    assert not gets(gpu_pod)


@pytest.mark.parametrize(
    ("expressions", "expected"),
    [
        pytest.param([SHIPPED], True, id="nvidias-own-text"),
        pytest.param([H100], True, id="product"),
        pytest.param(["device.driver == 'gpu.nvidia.com'", H100], True, id="driver-and-product"),
        pytest.param(["device.attributes['gpu.nvidia.com'].type == 'mig'"], True, id="mig"),
        pytest.param(["device.driver in ['gpu.amd.com', 'gpu.nvidia.com']"], True, id="two-vendors"),
        pytest.param([], True, id="every-device"),
        pytest.param(["not CEL"], True, id="unreadable"),
        pytest.param(["device.driver == 'gpu.amd.com'"], False, id="another-vendor"),
        pytest.param(["device.driver == 'compute-domain.nvidia.com'"], False, id="no-gpu-of-nvidia"),
        pytest.param(["device.attributes['nic.example.com'].speed > 100"], False, id="another-device"),
        pytest.param([H100, "device.driver == 'gpu.amd.com'"], False, id="contradiction"),
    ],
)
@pytest.mark.parametrize(
    "gpu_pod",
    [
        pytest.param(BY_TEMPLATE, id="template"),
        pytest.param(BY_CLAIM, id="claim"),
        pytest.param(pod({f"{IMPLICIT}h100.example.com": 1}), id="implicit-name"),
        pytest.param(pod({"example.com/h100": 1}), id="extended-resource"),
    ],
)
def test_class_of_ones_own_is_known_by_its_selectors(gpu_pod, expressions, expected):
    own = device_class(*expressions, extended="example.com/h100")
    requests = [exactly("h100.example.com")]
    assert gets(gpu_pod, own, template(*requests), claim(*requests)) is expected


@pytest.mark.parametrize("objects", [[], [device_class(SHIPPED, name="other.example.com")]], ids=["unknown", "absent"])
def test_invisible_class_is_not_a_gpu(objects):
    assert not gets(pod({f"{IMPLICIT}h100.example.com": 1, "example.com/h100": 1}), *objects)
    assert not gets(BY_TEMPLATE, template(exactly("h100.example.com")), *objects)


def test_class_of_another_shape_is_no_gpu():
    own = device_class(extended="example.com/h100")
    own["spec"]["selectors"] = [{"cel": None}]
    assert not gets(pod({"example.com/h100": 1, f"{IMPLICIT}h100.example.com": 1}), own)


def test_none_of_a_mapped_resource_is_no_gpu():
    own = device_class(SHIPPED, extended="example.com/h100")
    assert not gets(pod({"example.com/h100": "0", f"{IMPLICIT}h100.example.com": 0}), own)


def test_resource_without_a_class_is_no_gpu():
    assert not gets(pod({"example.com/fpga": 1}), device_class(SHIPPED, extended="example.com/h100"))


def test_one_of_several_classes_for_a_resource_is_enough():
    classes = (
        device_class("device.driver == 'gpu.amd.com'", name="a.example.com", extended="example.com/gpu"),
        device_class(SHIPPED, name="b.example.com", extended="example.com/gpu"),
    )
    assert gets(pod({"example.com/gpu": 1}), *classes)


def test_another_vendors_gpu_is_not_ours():
    theirs = device_class("device.driver == 'gpu.amd.com'", name="gpu.amd.com", extended="amd.com/gpu")
    assert not gets(pod({"amd.com/gpu": 1}), theirs)


@pytest.mark.parametrize(
    "resource",
    ["nvidia.com/gpu", "cpu", "example.com/h100", f"{IMPLICIT}h100.example.com", f"{IMPLICIT}gpu.nvidia.com"],
)
def test_texts_of_nvidia_need_no_cel_engine(resource):
    own = device_class(SHIPPED, extended="example.com/h100")
    unrequested = device_class(H100, name="unrequested.example.com", extended="example.com/unrequested")
    program = f"""
import sys
from policies.fleet import probably_gets_gpu
from webhook.cluster.manifests import ManifestsView

pod = {pod({resource: 1}).document!r}
assert probably_gets_gpu(pod, "team-a", ManifestsView({[own, unrequested]!r})) is {resource != "cpu"}
assert "policies.cel" not in sys.modules
"""
    root = Path(__file__).parents[2]
    subprocess.run([sys.executable, "-c", program], check=True, cwd=root)


@pytest.mark.parametrize(
    ("gpu_pod", "expected"),
    [
        (pod(), False),
        (pod({"cpu": "8", "memory": "64Gi", "hugepages-2Mi": "1Gi"}, {"ephemeral-storage": "1Gi"}), False),
        (pod({"nvidia.com/gpu": 1}), True),
        (pod(requests={"example.com/h100": 1}), True),
        (pod(initContainers=[{"name": "init", "resources": {"limits": {"nvidia.com/gpu": 1}}}]), True),
        (BY_TEMPLATE, True),
    ],
    ids=["nothing", "resources of Kubernetes", "limit", "request", "init container", "claim"],
)
def test_pod_that_requests_no_device_cannot_get_a_gpu(gpu_pod, expected):
    assert may_request_gpu(gpu_pod.document) is expected
