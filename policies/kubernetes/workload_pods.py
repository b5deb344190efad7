"""The pods of workloads: made from a pod template as a controller would, and put back into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["pod_of", "template_of"]

_COPIED = ("labels", "annotations", "finalizers")
"""What pods take from their template's metadata."""


def pod_of(template: Object, workload: Object, namespace: str) -> Object:
    """A pod as the workload's controller creates it.

    Its direct owner may be another object in between (the ReplicaSet of a Deployment, the Job of a CronJob); what
    decisions read is that a controller owns it. Source: GetPodFromTemplate in k8s.io/kubernetes
    pkg/controller/controller_utils.go.
    """
    owner = name_of(workload) or _generate_name(workload).rstrip("-")
    metadata = template.get("metadata")
    if isinstance(metadata, dict | None):
        copied = {key: value for key, value in (metadata or {}).items() if key in _COPIED}
        metadata = {
            **copied,
            "generateName": f"{owner}-",
            "namespace": namespace,
            "ownerReferences": [
                {
                    "apiVersion": workload.get("apiVersion"),
                    "kind": workload["kind"],
                    "name": owner,
                    "controller": True,
                    "blockOwnerDeletion": True,
                }
            ],
        }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template.get("spec")}


def template_of(pod: Object, template: Object) -> Object:
    """The template whose pods would look like this one."""
    marks = {key: value for key, value in pod["metadata"].items() if key in _COPIED}
    metadata = {**(template.get("metadata") or {}), **marks}
    return {**template, "metadata": metadata, "spec": pod["spec"]} if metadata else {**template, "spec": pod["spec"]}


def _generate_name(workload: Object) -> str:
    name = lookup(workload, ("metadata", "generateName"))
    return name if isinstance(name, str) else ""
