"""The common part of pods: what the pods of one Deployment or Job have in common, and rules may read.

A server answers the second pod of a template as it answered the first. It gives rules only the common part of a pod, so
that no answer can depend on the rest.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.admission.pods import creates_pod
from policies.kubernetes.names import PREFIX
from policies.kubernetes.neighbours import KEYS_READ
from policies.kubernetes.objects import controller_of, lookup
from policies.rules.request import ANONYMOUS

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.rules.request import Concern, Request


REPEATABLE: frozenset[Concern] = frozenset({"conversion", "preview", "placement", "conversion-check", "access"})
"""The concerns whose rules see only the common part of a new pod. A charge is about one pod, so quotas are not among them."""

_OWN = ("name", "generateName", "uid", "creationTimestamp", "managedFields")
"""Fields of a pod's metadata that may differ within a template. An indexed Job generates names with the index."""
_OWN_LABELS = (
    "apps.kubernetes.io/pod-index",
    "batch.kubernetes.io/job-completion-index",
    "statefulset.kubernetes.io/pod-name",
)
_OWN_ANNOTATIONS = ("batch.kubernetes.io/job-completion-index",)


def common_object(request: Request) -> Object | None:
    """The common part of a new pod; None for other requests, and for an object without the shape of a pod.

    A forged request may have an old object, which is not part of the pod. Parents of removed fields stay, so that a patch of the common part is also one of the whole pod.
    """
    pod = request.object
    if pod is None or request.old_object is not None or not creates_pod(request):
        return None
    metadata, spec = pod.get("metadata"), pod.get("spec")
    if not isinstance(metadata, dict) or not isinstance(spec, dict):
        return None
    metadata = metadata.copy()
    for field in _OWN:
        metadata.pop(field, None)
    _remove_texts(metadata, "labels", _OWN_LABELS)
    _remove_texts(metadata, "annotations", _OWN_ANNOTATIONS)
    if "hostname" in spec:
        spec = {key: value for key, value in spec.items() if key != "hostname"}
    return {**pod, "metadata": metadata, "spec": spec}


def common_request(request: Request, common: Object) -> Request:
    """The request as rules see it: about the common part of its pod, without a user.

    Exemptions of the user must be in the settings already (`policies.rules.settings.settings_for`).
    """
    return replace(request, object=common, name="", uid="", user=ANONYMOUS)


def _remove_texts(metadata: dict[str, Any], field: str, keys: tuple[str, ...]) -> None:
    """Remove members of a mapping that are texts; a member of another type makes a pod malformed."""
    members = metadata.get(field)
    if isinstance(members, dict) and not members.keys().isdisjoint(keys):
        kept = {key: value for key, value in members.items() if key not in keys or not isinstance(value, str)}
        metadata[field] = kept


_OWN_TO_PODS = frozenset({"nodeName", "hostname", "resourceClaimStatuses", "ephemeralContainers"})
"""Fields of a spec that differ between the pods of one template, or are added to running pods."""
_TOKEN_VOLUME = "kube-api-access-"  # noqa: S105 - the name of a volume
_CLAIM_NAME = ("persistentVolumeClaim", "claimName")
_LABELS_READ = (PREFIX, *KEYS_READ)
_ANNOTATIONS_READ = (PREFIX, "nvidia.cdi.k8s.io/", "cdi.k8s.io/", *KEYS_READ)
"""Prefixes of the keys that decisions read; networks and controllers write the others."""
_FIELDS_OF_REQUESTS = ("name", "resources", "restartPolicy")
"""The fields of a container that conversion reads."""


def as_created(pod: Object) -> Object:
    """The pod as it was when it was created: without node, status and ephemeral containers."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    created = {field: value for field, value in spec.items() if field not in ("nodeName", "ephemeralContainers")}
    return {field: value for field, value in pod.items() if field != "status"} | {"spec": created}


def form_of(pod: Object) -> bytes:
    """A hash of 16 bytes, equal for pods that get the same decisions in one namespace."""
    spec = pod.get("spec")
    metadata = {
        "labels": _read(lookup(pod, ("metadata", "labels")), _LABELS_READ),
        "annotations": _read(lookup(pod, ("metadata", "annotations")), _ANNOTATIONS_READ),
        "controller": controller_label(pod).partition(" ")[0],
    }
    common = _common(spec) if isinstance(spec, dict) else spec
    text = json.dumps([metadata, common], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).digest()[:16]


def controller_label(document: Object) -> str:
    """Kind and name of an object's controller, such as `ReplicaSet train-5d8f`; empty if it has none."""
    owner = controller_of(document)
    return "" if owner is None else f"{owner.get('kind')} {owner.get('name')}"


def slim_pod(pod: Object) -> Object:
    """The pod with only the fields that conversion reads; most of a pod is environment, mounts and probes."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    kept = {field: value for field, value in spec.items() if field != "volumes"}
    for field in ("containers", "initContainers"):
        if isinstance(spec.get(field), list):
            kept[field] = [_slim_container(container) for container in spec[field]]
    metadata = pod.get("metadata")
    if isinstance(metadata, dict):
        metadata = {field: value for field, value in metadata.items() if field != "managedFields"}
    return {**pod, "metadata": metadata, "spec": kept}


def _slim_container(container: Any) -> Any:
    if not isinstance(container, dict):
        return container
    return {field: container[field] for field in _FIELDS_OF_REQUESTS if field in container}


def _common(spec: dict[str, Any]) -> dict[str, Any]:
    common = {field: value for field, value in spec.items() if field not in _OWN_TO_PODS}
    if isinstance(spec.get("volumes"), list):
        common["volumes"] = [_volume(volume) for volume in spec["volumes"] if not _is_token(volume)]
    for field in ("containers", "initContainers"):
        if isinstance(spec.get(field), list):
            common[field] = [_container(container) for container in spec[field]]
    if lookup(spec, ("affinity", "nodeAffinity")) is not None:
        # A DaemonSet's pod names its node.
        common["affinity"] = _without_node(spec["affinity"])
    return common


def _container(container: Any) -> Any:
    mounts = lookup(container, ("volumeMounts",))
    if not isinstance(mounts, list):
        return container
    return {**container, "volumeMounts": [mount for mount in mounts if not _is_token(mount)]}


def _is_token(volume: Any) -> bool:
    return isinstance(volume, dict) and str(volume.get("name")).startswith(_TOKEN_VOLUME)


def _volume(volume: Any) -> Any:
    """The volume without its claim name: a StatefulSet gives each pod its own claim."""
    if not (isinstance(volume, dict) and "persistentVolumeClaim" in volume) or lookup(volume, _CLAIM_NAME) is None:
        return volume
    return {**volume, "persistentVolumeClaim": {**volume["persistentVolumeClaim"], "claimName": ""}}


def _without_node(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_node(item) for item in value]
    if not isinstance(value, dict):
        return value
    if value.get("key") == "metadata.name" and value.get("operator") == "In":
        return {**value, "values": []}
    return {field: _without_node(item) for field, item in value.items()}


def _read(texts: Any, beginnings: tuple[str, ...]) -> dict[str, Any]:
    """The labels or annotations that decisions read."""
    if not isinstance(texts, dict):
        return {}
    return {key: value for key, value in texts.items() if key.startswith(beginnings)}
