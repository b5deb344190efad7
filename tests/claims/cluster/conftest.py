"""Claims in a cluster with a few devices."""

import pytest
import yaml

from policies.rules.settings import DEFAULTS, DRADriver, GPUAdmissionPolicy

GPU = {
    "type": "gpu",
    "productName": "NVIDIA H100 80GB HBM3",
    "brand": "Nvidia",
    "architecture": "Hopper",
    "cudaComputeCapability": ("version", "9.0.0"),
    "driverVersion": ("version", "580.95.5"),
    "cudaDriverVersion": ("version", "13.0.0"),
}
SHIPPED = {"gpu.nvidia.com": "gpu", "mig.nvidia.com": "mig", "vfio.gpu.nvidia.com": "vfio"}


def item(value):
    if isinstance(value, tuple):
        return dict([value])
    return {{str: "string", bool: "bool", int: "int"}[type(value)]: value}


@pytest.fixture
def device_class():
    """`device_class(name, *selectors)`; without selectors one of NVIDIA's own."""

    def make(name="gpu.nvidia.com", *selectors):
        own = f'device.driver == "gpu.nvidia.com" && device.attributes["gpu.nvidia.com"].type == "{SHIPPED.get(name)}"'
        listed = [{"cel": {"expression": text}} for text in selectors or (own,)]
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": name},
            "spec": {"selectors": listed},
        }

    return make


@pytest.fixture
def gpu():
    """`gpu(name, memory, **attributes)`: a device of NVIDIA's driver; an attribute that is None is left out."""

    def make(name="gpu-0", memory="81559Mi", shareable=False, **attributes):
        has = {**GPU, "uuid": f"GPU-{name}", **attributes}
        device = {
            "name": name,
            "attributes": {key.replace("__", "/"): item(value) for key, value in has.items() if value is not None},
            "capacity": {"memory": {"value": memory}} if memory else {},
        }
        return {**device, "allowMultipleAllocations": True} if shareable else device

    return make


@pytest.fixture
def on_node():
    """`on_node(node, *devices)`: the ResourceSlice of a node."""

    def make(node, *devices, driver="gpu.nvidia.com", generation=1):
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{driver}-{generation}"},
            "spec": {
                "driver": driver,
                **({"nodeName": node} if node else {"allNodes": True}),
                "pool": {"name": node or "pool", "generation": generation, "resourceSliceCount": 1},
                "devices": list(devices),
            },
        }

    return make


@pytest.fixture
def asking():
    """`asking(*selectors, ...)`: a claim with one request."""

    def make(*selectors, device_class="gpu.nvidia.com", constraints=(), others=(), **fields):
        exactly = {"deviceClassName": device_class, **fields}
        if selectors:
            exactly["selectors"] = [{"cel": {"expression": text}} for text in selectors]
        devices = {"requests": [{"name": "gpu", "exactly": exactly}, *others]}
        if constraints:
            devices["constraints"] = list(constraints)
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": "gpu", "namespace": "team-a"},
            "spec": {"devices": devices},
        }

    return make


@pytest.fixture
def said(findings_of):
    """`said(rule, object, *cluster)`: what a rule says, with the path that all texts begin with left out."""

    def say(rule, document, *cluster, release="", path="spec.devices.requests[0].exactly.", **options):
        text = "\n---\n".join(yaml.safe_dump(each) for each in (document, *cluster))
        settings = GPUAdmissionPolicy(dra_driver=DRADriver(version=release)) if release else DEFAULTS
        return [each.removeprefix(path) for each in findings_of(rule, text, settings=settings, **options)]

    return say
