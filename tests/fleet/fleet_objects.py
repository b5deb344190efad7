"""Pods, claims and classes for fleet tests."""

from webhook.cluster.manifests import ManifestsView

IMPLICIT = "deviceclass.resource.kubernetes.io/"
GPU = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'gpu'"
MIG = "device.driver == 'gpu.nvidia.com' && device.attributes['gpu.nvidia.com'].type == 'mig'"
CHANNEL = (
    "device.driver == 'compute-domain.nvidia.com' && device.attributes['compute-domain.nvidia.com'].type == 'channel'"
)
OTHER = "device.driver == 'fast.example.com'"
EITHER = "device.driver in ['fast.example.com', 'gpu.nvidia.com']"


def device_class(name, *selectors, extended=None, created=None):
    spec = {"selectors": [{"cel": {"expression": each}} for each in selectors]}
    if extended:
        spec["extendedResourceName"] = extended
    metadata = {"name": name, "creationTimestamp": created} if created else {"name": name}
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": metadata, "spec": spec}


def exactly(device_class, *selectors, name="gpu"):
    fields = {"deviceClassName": device_class}
    if selectors:
        fields["selectors"] = [{"cel": {"expression": each}} for each in selectors]
    return {"name": name, "exactly": fields}


def first_available(*classes, name="gpu"):
    listed = [{"name": f"s{index}", "deviceClassName": each} for index, each in enumerate(classes)]
    return {"name": name, "firstAvailable": listed}


def claim(*requests, name="c", version="v1", namespace="team-a"):
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": list(requests)}},
    }


def template(*requests, name="t", **options):
    made = claim(*requests, name=name, **options)
    return {**made, "kind": "ResourceClaimTemplate", "spec": {"spec": made["spec"]}}


def container(name="main", limits=None, requests=None, claims=None, **fields):
    resources = {"limits": limits or {}, "requests": requests or {}, "claims": claims or []}
    return {"name": name, "resources": resources, **fields}


def pod(*containers, claims=(), **spec):
    return {
        "metadata": {"name": "train"},
        "spec": {"containers": list(containers), "resourceClaims": list(claims), **spec},
    }


def cluster(*objects):
    """A view that knows all classes, claims and templates."""
    known = [{"apiVersion": "resource.k8s.io/v1", "kind": f"{kind}List", "items": []} for kind in _KINDS]
    return ManifestsView([*known, *objects])


_KINDS = ("DeviceClass", "ResourceClaim", "ResourceClaimTemplate")
NVIDIAS = (device_class("gpu.nvidia.com", GPU), device_class("mig.nvidia.com", MIG))
