"""Objects for calls about quotas, and checks of their answers."""

import re
from pathlib import Path

import pytest

from testbed import libyaml

EXAMPLE_CLUSTER = Path(__file__).parents[3] / "examples" / "cluster"
QUOTA = "/apis/gpu-admission.io/v1alpha1/namespaces/team-a/gpuquotas/gpu"
ENTRIES = pytest.mark.parametrize("entry", ["enforce-quota", "check-pods"])


def example_cluster():
    """The cluster of the examples without conversion in `team-a`: its check would refuse the pods before the quota does."""
    files = sorted(EXAMPLE_CLUSTER.glob("*.yaml"))
    return [
        *(each for file in files for each in libyaml.load_all(file.read_text()) if each),
        team_a(),
    ]


def team_a(**labels):
    """The namespace `team-a`."""
    labels = {f"gpu-admission.io/{name}": value for name, value in labels.items()}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team-a", "labels": labels}}


def template(count):
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "gpus", "namespace": "team-a"},
        "spec": {"spec": {"devices": {"requests": requests}}},
    }


def later(response, seconds):
    status = response["status"]
    assert (status["code"], status["reason"]) == (429, "TooManyRequests")
    assert status["details"] == {"retryAfterSeconds": seconds}
    assert status["message"].endswith("[GA504]")
    return status["message"]


def warned(response):
    assert response["allowed"]
    assert response["auditAnnotations"]["findings"].startswith("GA504=warn")
    said = " ".join(line.strip() for line in response["warnings"])
    assert re.findall(r"\[(GA[0-9]{3})\]", said)[0] == "GA504"
    return said


CONTROLLER = "system:serviceaccount:kube-system:resource-claim-controller"


SCHEDULER = "system:kube-scheduler"


OF_TEMPLATE = {"resource.kubernetes.io/pod-claim-name": "gpu"}


OF_EXTENDED = {"resource.kubernetes.io/extended-resource-claim": "true"}


def claim(count, uid="c", annotations=None, **owner):
    """A claim, made for a pod where `annotations` are given."""
    metadata = {"name": "gpus", "namespace": "team-a", "uid": uid}
    if annotations is not None:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": "train", "uid": "1", "controller": True, **owner}
        metadata |= {"annotations": annotations, "ownerReferences": [reference]}
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": metadata,
        "spec": {"devices": {"requests": requests}},
    }
