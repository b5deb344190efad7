"""Quotas, nodes, pods and claims to count."""

from policies.rules.charges import OWN

ALL = {"name": "all", "gpus": 8}


def document(*limits, **more):
    metadata = {"name": "gpu", "namespace": "team-a"}
    spec = {"limits": list(limits) or [ALL], **more}
    return {"apiVersion": "gpu-admission.io/v1alpha1", "kind": "GPUQuota", "metadata": metadata, "spec": spec}


def pod(name, gpus=1, status=None, **spec):
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team-a",
            "uid": f"uid-of-{name}",
            "creationTimestamp": "2027-01-01T00:00:00Z",
        },
        "spec": {"containers": [{"name": "main", "image": "train", "resources": resources}], **spec},
        "status": status or {},
    }


def claim(name, count=1, of="", piece=OWN):
    metadata = {
        "name": name,
        "namespace": "team-a",
        "uid": f"uid-of-{name}",
        "creationTimestamp": "2027-01-03T00:00:00Z",
    }
    if of:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": of, "uid": f"uid-of-{of}", "controller": True}
        said = ("pod-claim-name", piece) if piece else ("extended-resource-claim", "true")
        metadata["ownerReferences"] = [owner]
        metadata["annotations"] = {f"resource.kubernetes.io/{said[0]}": said[1]}
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": [request]}},
    }


def status_of(**names):
    """The status of a pod that names its claims: by piece, and `extended` for that of its extended resources."""
    extended = names.pop("extended", None)
    listed = [{"name": piece, "resourceClaimName": name} for piece, name in names.items()]
    return {"resourceClaimStatuses": listed} | (
        {"extendedResourceClaimStatus": {"resourceClaimName": extended}} if extended else {}
    )
