"""Trims objects to the fields that policies, explanations and controllers read.

A node has 10 to 30 kB, most of it images, conditions and managed fields; policies read a tenth of that. `tests/live` shows
that whole and trimmed objects give the same reviews and explanations.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import TYPE_CHECKING, Any

from policies.conversion.preemption import gpu_holding
from policies.devices.pod_groups import names_pod_group
from policies.fleet import may_request_gpu
from policies.kubernetes.names import HELM, PREFIX, SCHEDULABLE
from policies.kubernetes.neighbours import KEYS_READ
from policies.kubernetes.objects import has_ended, lookup
from policies.kubernetes.pod_status import SANDBOX, reduced_container_statuses
from policies.quota.ledger.recount import awaits_replicas
from webhook.cluster.store import DeletedUids, OtherPods, Sharing, Store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource
    from webhook.cluster.watched_kinds import Watched


_OURS = (PREFIX, "resource.kubernetes.io/", HELM, *KEYS_READ)
_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_CONDITIONS: Mapping[str, tuple[str, ...]] = {
    SANDBOX: ("type", "status"),
    "PodScheduled": ("type", "status"),
    SCHEDULABLE: ("type", "reason", "message"),
}
"""The fields that are kept of the conditions of a pod, by their types."""
_CHARGED = ("Pod", "PodGroup", "ResourceClaim")
"""Kinds whose charges wait for the object to be seen, even if it exists only for a moment."""
_COUNTED: Mapping[str, tuple[Callable[[Object], Any], ...]] = {
    "GPUQuota": (awaits_replicas,),
    "GPUQuotaGroup": (awaits_replicas,),
    "Pod": (gpu_holding, names_pod_group),
}
"""The functions whose values are counted for the objects of a kind."""
_OPERATOR = "gpu-operator"
"""The label `app` of the GPU Operator's pod, whose image has its version."""


class _Keep(Enum):
    """The ways to keep a whole part."""

    OWN = "own"
    """As it is, for parts that differ between objects."""
    SHARED = "shared"
    """Once for all objects with an equal part."""
    TEXTS = "texts"
    """With interned strings of a mapping, or of the mappings in a list."""
    OURS = "ours"
    """Only our annotations, those by which a neighbour or a release of Helm is recognized, and Kubernetes' own that name the
    pod of a claim."""
    WRITTEN = "written"
    """All annotations except kubectl's copy of the whole object."""
    CONDITIONS = "conditions"
    """Of the conditions of a pod, the status of the scheduler and of the sandbox, and our text; once for all pods with equal
    ones."""
    FAILURES = "failures"
    """Of the statuses of containers, what keeps them from running and which devices are unhealthy; nothing if all is well."""


@dataclass(frozen=True, slots=True)
class _Once:
    """A part of which some fields are kept, once for all objects with equal fields."""

    fields: _Fields


_OWN, _SHARED, _TEXTS = _Keep.OWN, _Keep.SHARED, _Keep.TEXTS
_Part = _Keep | _Once | dict[str, "_Part"]
_Fields = dict[str, _Part]
"""The kept fields of a mapping, or of every mapping in a list."""

_NAMED: _Fields = {
    "name": _SHARED,
    "namespace": _SHARED,
    "uid": _OWN,
    "creationTimestamp": _SHARED,
    "deletionTimestamp": _SHARED,
    "labels": _TEXTS,
}
_ANNOTATED: _Fields = {**_NAMED, "annotations": _Keep.OURS}
_METADATA: _Fields = {**_ANNOTATED, "ownerReferences": _SHARED}
_WHOLE: _Fields = {"metadata": {**_METADATA, "annotations": _Keep.WRITTEN}, "spec": _OWN, "status": _OWN}
_NODE_INFO = _Once(
    dict.fromkeys(("architecture", "containerRuntimeVersion", "kernelVersion", "kubeletVersion", "osImage"), _SHARED)
)
_CONTAINERS = _Once(dict.fromkeys(("name", "resources", "restartPolicy", "ports"), _SHARED))
_CONTAINERS_AND_IMAGES = _Once({**_CONTAINERS.fields, "image": _SHARED})

_QUOTA: _Fields = {
    "metadata": {**_ANNOTATED, "generation": _OWN, "resourceVersion": _OWN},
    "spec": _OWN,
    "status": _OWN,
}
_FIELDS: Mapping[str, _Fields] = {
    "ClusterGPUQuota": _QUOTA,
    "ClusterTrainingRuntime": {"metadata": _NAMED, "spec": _OWN},
    "ClusterPolicy": _WHOLE,
    "ConfigMap": {"metadata": _METADATA, "data": _OWN, "binaryData": _OWN},
    "ComputeDomain": {"metadata": _METADATA, "spec": _SHARED},
    "CustomResourceDefinition": {"metadata": _NAMED},
    "Deployment": {
        "metadata": _METADATA,
        "spec": {"template": {"spec": {"containers": {"name": _OWN, "image": _OWN, "env": _OWN}}}},
    },
    "DeviceClass": {"metadata": _METADATA, "spec": _OWN},
    "DeviceTaintRule": {"metadata": _NAMED, "spec": _OWN, "status": {"conditions": {"type": _SHARED}}},
    "GPUAdmissionPolicy": {**_WHOLE, "metadata": {**_METADATA, "generation": _OWN}},
    "GPUCluster": _WHOLE,
    "GPUQuota": _QUOTA,
    "GPUQuotaGroup": _QUOTA,
    "LimitRange": {"metadata": _NAMED, "spec": _SHARED},
    "NVIDIADriver": _WHOLE,
    "Namespace": {"metadata": _ANNOTATED, "status": _Once({"phase": _SHARED})},
    "Node": {
        "metadata": _ANNOTATED,
        "spec": {"taints": _SHARED, "unschedulable": _SHARED},
        "status": {"allocatable": _SHARED, "capacity": _SHARED, "nodeInfo": _NODE_INFO},
    },
    "PodGroup": {
        "metadata": _NAMED,
        "spec": _Once({"resourceClaims": _OWN}),
        "status": {"resourceClaimStatuses": _OWN},
    },
    "PriorityClass": {"metadata": _NAMED, "value": _OWN, "globalDefault": _OWN, "preemptionPolicy": _SHARED},
    "Prometheus": {"metadata": _NAMED, "spec": {"scrapeInterval": _OWN, "serviceMonitorSelector": _OWN}},
    "ResourceClaim": {
        "metadata": {**_METADATA, "ownerReferences": _TEXTS},
        "spec": _SHARED,
        "status": {
            "allocation": {"devices": {"results": _TEXTS}, "nodeSelector": _SHARED},
            "devices": {
                **dict.fromkeys(("driver", "pool", "device"), _SHARED),
                "conditions": _Once(dict.fromkeys(("type", "status", "reason", "message"), _OWN)),
                "networkData": dict.fromkeys(("interfaceName", "ips", "hardwareAddress"), _SHARED),
            },
            "reservedFor": {"resource": _SHARED, "name": _SHARED},
        },
    },
    "ResourceClaimTemplate": {"metadata": _METADATA, "spec": _SHARED},
    "ResourceQuota": {"metadata": _NAMED, "spec": _SHARED},
    "RuntimeClass": {"metadata": _NAMED, "handler": _OWN},
    "ServiceMonitor": {"metadata": _NAMED, "spec": _Once({"selector": _OWN, "namespaceSelector": _OWN})},
    "TrainingRuntime": {"metadata": _NAMED, "spec": _OWN},
}
"""The kept fields of each kind."""

_SHARED_OF_PODS = (
    "nodeName nodeSelector overhead preemptionPolicy priority priorityClassName resourceClaims resources"
    " runtimeClassName schedulerName schedulingGates schedulingGroup tolerations"
)
_POD_SPEC: _Fields = {
    "affinity": _Once({"nodeAffinity": _OWN}),
    "containers": _CONTAINERS,
    "hostNetwork": _OWN,
    "initContainers": _CONTAINERS,
    **dict.fromkeys(_SHARED_OF_PODS.split(), _SHARED),
}
_POD: _Fields = {
    "metadata": {**_METADATA, "uid": _SHARED, "labels": _SHARED},
    "spec": _POD_SPEC,
    "status": {
        "phase": _SHARED,
        "conditions": _Keep.CONDITIONS,
        "containerStatuses": _Keep.FAILURES,
        "initContainerStatuses": _Keep.FAILURES,
        "resourceClaimStatuses": _OWN,
        "extendedResourceClaimStatus": _OWN,
    },
}
_OPERATORS_POD: _Fields = {**_POD, "spec": {**_POD_SPEC, "containers": _CONTAINERS_AND_IMAGES}}


def store_of(watched: Watched, clock: Callable[[], float] = time.monotonic) -> Store:
    """An empty store that trims the objects of a watched resource, and counts the pods that it drops.

    Args:
        watched: The watched resource.
        clock: Seconds, for the state's `since`.
    """
    trim = trim_for(watched.resource)
    others, gone = OtherPods() if watched.part else None, DeletedUids() if watched.kind in _CHARGED else None
    counted = _COUNTED.get(watched.kind, ())
    return Store(watched.resource, trim, others=others, gone=gone, counted=counted, clock=clock)


def trim_for(resource: Resource, sharing: Sharing | None = None) -> Callable[[Object], Object | None]:
    """The function that returns the kept part of an object, or None to drop the object.

    Args:
        resource: The resource; objects in lists lack `kind` and `apiVersion`.
        sharing: Shares equal parts of objects; a new one by default.

    Raises:
        KeyError: Objects of this kind are not read.
    """
    sharing = sharing or Sharing()
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    if resource.kind == "Pod":
        return partial(_pod, head, sharing)
    if resource.kind == "ResourceSlice":
        return partial(_resource_slice, head, sharing)
    return partial(_object, head, sharing, _FIELDS[resource.kind])


def _object(head: Object, sharing: Sharing, fields: _Fields, document: Object) -> Object:
    return {**head, **_project(document, fields, sharing)}


def _pod(head: Object, sharing: Sharing, document: Object) -> Object | None:
    """A running pod that requests claims or extended resources, or is the GPU Operator's own.

    Any extended resource may stand for GPUs in some cluster, so its name does not matter.
    """
    if has_ended(document):
        return None
    if lookup(document, ("metadata", "labels", "app")) == _OPERATOR:
        return _object(head, sharing, _OPERATORS_POD, document)
    return _object(head, sharing, _POD, document) if may_request_gpu(document) else None


def _resource_slice(head: Object, sharing: Sharing, document: Object) -> Object:
    """A whole slice; each attribute of a device is shared, and its capacities as one."""
    kept = {**head, **_project(document, {"metadata": _NAMED, "spec": _OWN}, sharing)}
    spec, devices = kept.get("spec"), lookup(kept, ("spec", "devices"))
    if isinstance(spec, dict) and isinstance(devices, list):
        kept["spec"] = {**spec, "devices": [_device(device, sharing) for device in devices]}
    return kept


def _device(device: Any, sharing: Sharing) -> Any:
    if not isinstance(device, dict):
        return device
    return {
        name: {key: sharing.part(each) for key, each in part.items()}
        if name == "attributes" and isinstance(part, dict)
        else sharing.part(part)
        for name, part in device.items()
    }


def _project(value: Any, fields: _Fields, sharing: Sharing) -> Any:
    if isinstance(value, list):
        return [_project(item, fields, sharing) for item in value]
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, part in fields.items():
        if name in value and (found := _kept_part(value[name], part, sharing)) is not None:
            kept[name] = found
    return kept


def _kept_part(value: Any, part: _Part, sharing: Sharing) -> Any:
    """The kept part of a field; None if nothing is kept. The most frequent parts are first."""
    if part is _SHARED:
        return sharing.part(value)
    if part is _OWN:
        return value
    if isinstance(part, dict):
        return _project(value, part, sharing)
    if isinstance(part, _Once):
        return sharing.part(_project(value, part.fields, sharing))
    if part is _TEXTS:
        return sharing.texts(value)
    if part is _Keep.CONDITIONS:
        return sharing.part(_conditions(value))
    if part is _Keep.FAILURES:
        return sharing.part(found) if (found := reduced_container_statuses(value)) else None
    if part is _Keep.OURS:
        return sharing.part(_annotations(value, lambda name: name.startswith(_OURS)))
    return _annotations(value, lambda name: name != _APPLIED)


def _conditions(conditions: Any) -> Any:
    if not isinstance(conditions, list):
        return None
    kept = []
    for each in conditions:
        fields = _CONDITIONS.get(str(each.get("type"))) if isinstance(each, dict) else None
        if fields is not None:
            kept.append({name: each[name] for name in fields if name in each})
    return kept or None


def _annotations(annotations: Any, is_kept: Callable[[str], bool]) -> Any:
    if not isinstance(annotations, dict):
        return None
    return {name: text for name, text in annotations.items() if is_kept(name)} or None
