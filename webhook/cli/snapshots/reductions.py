"""Reduces objects to what rules read, so that no secret is left in them.

Only listed fields keep their texts; numbers, true and false stay everywhere. `tests/cli/snapshots` shows that the examples
of all rules have the same findings before and after.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Any

from policies.admission import ANNOTATIONS_READ
from policies.kubernetes.names import HELM
from policies.kubernetes.objects import has_ended, items_at, lookup, mappings_at
from policies.kubernetes.pod_status import (
    CONTAINER_STATUSES,
    SANDBOX,
    has_sandbox,
    is_read_event,
    reduced_container_statuses,
)
from policies.nvidia.start_failures import known_text
from webhook.cluster.trimmed import trim_for

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kubernetes.objects import Object
    from webhook.cluster.resources import Resource


REDACTED = "redacted"
"""Replaces the value of a variable that is set and that no rule reads."""

_CONFIGURATION = frozenset({"ClusterPolicy", "GPUCluster", "NVIDIADriver"})
"""Kinds of GPU software. They are kept as they are, except for annotations and the values of variables."""
_TRIMMED = frozenset(
    {
        *("ComputeDomain", "CustomResourceDefinition", "DeviceClass", "DeviceTaintRule", "GPUAdmissionPolicy"),
        *("ClusterGPUQuota", "GPUQuota", "GPUQuotaGroup", "LimitRange"),
        *("Namespace", "Node", "PodGroup", "PriorityClass", "Prometheus", "ResourceClaim", "ResourceClaimTemplate"),
        *("ResourceQuota", "ResourceSlice", "RuntimeClass", "ServiceMonitor"),
        *_CONFIGURATION,
    }
)
"""Kinds that are trimmed as for the service, which caches them."""
_INSTALLED = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
"""Our webhook configurations; their parts that differ between settings are read as texts."""

_METADATA = (
    "name",
    "generateName",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "labels",
)
_ANNOTATIONS = (*ANNOTATIONS_READ, "resource.kubernetes.io/", "nvidia.com/", HELM)
"""Prefixes of the annotations that rules read."""
_POD_STATUS = ("phase", "resourceClaimStatuses", "extendedResourceClaimStatus")
_EVENT = ("involvedObject", "reason", "type", "count", "series", "lastTimestamp", "eventTime")
_WHOLE = frozenset(
    {
        *(
            "labels",
            "matchLabels",
            "nodeSelector",
            "nodeSelectorTerms",
            "preferredDuringSchedulingIgnoredDuringExecution",
        ),
        *("limits", "requests", "claims", "overhead", "capabilities", "tolerations", "taints", "requirements"),
        *("resourceClaims", "runtimeRef", "workloadRef", "gpu", "cliqueNames"),
    }
)
"""Fields that are kept as they are."""
_TEXTS = frozenset(
    {
        *("apiVersion", "kind", "name", "namespace", "image", "restartPolicy", "runtimeClassName", "priorityClassName"),
        *("schedulerName", "preemptionPolicy", "nodeName", "serviceAccountName", "serviceAccount", "path", "subPath"),
        *("subPathExpr", "protocol", "prefix", "key", "fieldPath", "resource", "type", "status", "operator"),
    }
)
"""Fields of which a text is kept."""
_DROPPED = frozenset(
    {
        *("command", "args", "lifecycle", "livenessProbe", "readinessProbe", "startupProbe", "managedFields", "status"),
        *(
            "podAffinity",
            "podAntiAffinity",
            "topologySpreadConstraints",
            "volumeClaimTemplates",
            "strategy",
        ),
    }
)
_READ_VARIABLES = frozenset({"NVIDIA_VISIBLE_DEVICES", "NVIDIA_REQUIRE_CUDA", "CUDA_VERSION"})
"""Variables of pods whose values rules read."""
_READ_PREFIXES = ("CONSUMABLE_", "CONTAINERD_", "CRIO_", "CUDA_", "DCGM_", "DRAIN_", "ENABLE_", "NVIDIA_", "WITH_")
"""Prefixes of the variables of GPU software whose values rules read."""
_SECRET = re.compile("KEY|TOKEN|PASSWORD|SECRET|CREDENTIAL", re.IGNORECASE)
"""Parts of the names of variables whose values are secrets, whatever their prefix."""
_NAMES_GPUS = "nvidia-container-devices"
"""The part of a `mountPath` by which a container names GPUs."""
_REFERENCE = re.compile(r"\$\(([^()]*)\)")


def reduction_of(resource: Resource) -> Callable[[Object], Object | None]:
    """The function that returns what is kept of an object, or None to leave the object out.

    Args:
        resource: The resource; objects in lists lack `kind` and `apiVersion`.

    Raises:
        KeyError: Objects of this kind are never kept: Secrets, and kinds that rules do not read.
    """
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    kind = resource.kind
    if kind in _CONFIGURATION:
        return partial(_configuration, trim_for(resource))
    if kind in _TRIMMED or kind == "ConfigMap":
        return trim_for(resource)
    if kind in _INSTALLED:
        return partial(_webhooks, head)
    if kind == "Secret":
        raise KeyError(kind)
    if kind == "Event":
        return partial(_event, head)
    return partial(_pod if kind == "Pod" else _workload, head)


def without_values(config_map: Object) -> Object:
    """A ConfigMap with its keys and without what they hold."""
    parts = {part: config_map[part] for part in ("data", "binaryData") if isinstance(config_map.get(part), dict)}
    return {**config_map, **{part: dict.fromkeys(keys, "") for part, keys in parts.items()}}


def _configuration(trim: Callable[[Object], Object | None], document: Object) -> Object | None:
    kept = trim(document)
    if kept is None:
        return None
    metadata = kept.get("metadata", {})
    return {
        **kept,
        "metadata": {**metadata, **_annotations(metadata)},
        "spec": _with_redacted_variables(kept.get("spec")),
    }


def _with_redacted_variables(value: Any) -> Any:
    if isinstance(value, list):
        return [_with_redacted_variables(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name: [_variable(each, _is_read) for each in part]
        if name == "env" and isinstance(part, list)
        else _with_redacted_variables(part)
        for name, part in value.items()
    }


def _is_read(variable: str) -> bool:
    return variable.startswith(_READ_PREFIXES) and _SECRET.search(variable) is None


def _webhooks(head: Object, document: Object) -> Object:
    """A webhook configuration without the certificates of its service."""
    webhooks = [
        {field: value for field, value in each.items() if field != "clientConfig"}
        for each in mappings_at(document, ("webhooks",))
    ]
    return {**head, "metadata": _metadata(document), "webhooks": webhooks}


def _pod(head: Object, document: Object) -> Object | None:
    """A pod that has not ended."""
    if has_ended(document):
        return None
    status = document.get("status")
    kept = {}
    if isinstance(status, dict):
        kept = {field: status[field] for field in _POD_STATUS if field in status} | _container_statuses(status)
        if has_sandbox(document):
            kept["conditions"] = [{"type": SANDBOX, "status": "True"}]
    return {**head, "metadata": _metadata(document), "spec": _part(document.get("spec"), "spec"), "status": kept}


def _container_statuses(status: Object) -> Object:
    """The failures and unhealthy devices in a pod's status, with the texts of GPU software only."""
    found = ((field, reduced_container_statuses(status.get(field))) for field in CONTAINER_STATUSES)
    return {field: [_with_known_messages(each) for each in statuses] for field, statuses in found if statuses}


def _with_known_messages(value: Any) -> Any:
    """A status whose messages are reduced to the part that the table of start failures has."""
    if isinstance(value, list):
        return [_with_known_messages(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {name: _with_known_messages(part) for name, part in value.items() if name != "message"}
    return {**kept, **_known_message(value)}


def _known_message(fields: Object) -> Object:
    """The message if it is of GPU software; other messages may have commands and secrets."""
    text = known_text(str(fields.get("message") or ""))
    return {"message": text} if text else {}


def _event(head: Object, document: Object) -> Object | None:
    """A warning of a kubelet that explanations of bound pods read."""
    if not is_read_event(document):
        return None
    kept = {field: document[field] for field in _EVENT if field in document}
    return {**head, "metadata": _metadata(document), **kept, **_known_message(document)}


def _workload(head: Object, document: Object) -> Object:
    fields = {
        name: _part(value, name)
        for name, value in document.items()
        if name not in ("apiVersion", "kind", "metadata", "status")
    }
    conditions = [
        {field: each[field] for field in ("type", "status") if field in each}
        for each in mappings_at(document, ("status", "conditions"))
    ]
    status = {"status": {"conditions": conditions}} if conditions else {}
    return {**head, "metadata": _metadata(document), **fields, **status}


def _metadata(document: Object) -> Object:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict):
        return {}
    kept = {field: metadata[field] for field in (*_METADATA, "ownerReferences") if field in metadata}
    return {**kept, **_annotations(metadata)}


def _annotations(metadata: Object) -> Object:
    """The annotations that rules read, as a part of the metadata."""
    annotations = metadata.get("annotations")
    if not isinstance(annotations, dict):
        return {}
    return {"annotations": {key: text for key, text in annotations.items() if key.startswith(_ANNOTATIONS)}}


def _part(value: Any, name: str) -> Any:
    """The kept part of a field; None for a text that is not kept."""
    if name in _WHOLE or isinstance(value, bool | int | float | None):
        return value
    if isinstance(value, str):
        is_kept = name in _TEXTS or value == "" or (name == "mountPath" and _NAMES_GPUS in value)
        return value if is_kept else None
    if isinstance(value, list):
        return [kept for item in value if (kept := _part(item, name)) is not None]
    if name == "metadata":
        return _metadata({"metadata": value})
    kept = {}
    for field, part in value.items():
        if field == "env" and isinstance(part, list):
            kept[field] = _environment(part, value)
        elif field == "annotations":
            kept |= _annotations(value)
        elif field not in _DROPPED and (found := _part(part, field)) is not None:
            kept[field] = found
    return kept


def _environment(env: list[Any], container: Object) -> list[Any]:
    """The variables of a container, with the values that rules read and those that these refer to."""
    values = {name: lookup(each, ("value",)) for each in env if isinstance(name := lookup(each, ("name",)), str)}
    paths = [lookup(mount, ("subPathExpr",)) for mount in items_at(container, ("volumeMounts",))]
    read: set[str] = set()
    found = [*(_READ_VARIABLES & values.keys()), *_references(paths)]
    while found:
        name = found.pop()
        if name not in read:
            read.add(name)
            found += _references([values.get(name)])
    return [_variable(each, read.__contains__) for each in env]


def _references(texts: list[Any]) -> list[str]:
    return [name for text in texts if isinstance(text, str) for name in _REFERENCE.findall(text)]


def _variable(variable: Any, is_read: Callable[[str], bool]) -> Any:
    name = lookup(variable, ("name",))
    if not isinstance(variable, dict) or not isinstance(name, str):
        return {}
    kept = {"name": name}
    if value := variable.get("value"):
        kept["value"] = value if is_read(name) else REDACTED
    source = variable.get("valueFrom")
    return {**kept, "valueFrom": _part(source, "valueFrom")} if source is not None else kept
