"""The common part of pods: what the pods of one Deployment or Job have in common, and rules may read.

A server answers the second pod of a template as it answered the first, and an audit reviews one pod of each template. Both
give rules only the common part of a pod, so that no answer can depend on the rest.
"""

from __future__ import annotations

import hashlib
import marshal
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.admission.pods import creates_pod
from policies.fleet import unmet_requests
from policies.kubernetes.names import PREFIX
from policies.kubernetes.neighbours import KEYS_READ
from policies.kubernetes.objects import controller_of, items_at
from policies.kubernetes.pods import resources_in_claim
from policies.nvidia.container_toolkit import CDI_ANNOTATIONS
from policies.rules.request import ANONYMOUS

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.request import Concern, Request
    from policies.rules.settings import GPUAdmissionPolicy


REPEATABLE: frozenset[Concern] = frozenset({"conversion", "preview", "placement", "conversion-check", "access"})
"""The concerns whose rules see only the common part of a new pod. A charge is about one pod, so quotas are not among them."""

ANNOTATIONS_READ = (PREFIX, *CDI_ANNOTATIONS, *KEYS_READ)
"""Prefixes of the annotations of pods that rules read. Controllers and networks write others into each pod."""

_OWN = frozenset(
    {
        *("name", "generateName", "uid", "creationTimestamp", "managedFields"),
        *("resourceVersion", "generation", "selfLink", "deletionTimestamp", "deletionGracePeriodSeconds"),
    }
)
"""Fields of a pod's metadata that may differ within a template. An indexed Job generates names with the index."""
_READ = {"labels": (PREFIX, *KEYS_READ), "annotations": ANNOTATIONS_READ}
"""Prefixes of the labels and annotations that rules read."""
_OWN_TO_OWNER = frozenset({"name", "uid"})
"""Fields of an owner that differ between the Jobs of one CronJob. Rules read its kind."""


def common_object(request: Request) -> Object | None:
    """The common part of a new pod; None for other requests, and for an object without the shape of a pod.

    A forged request may have an old object, which is not part of the pod.
    """
    pod = request.object
    if pod is None or request.old_object is not None or not creates_pod(request):
        return None
    if not isinstance(pod.get("metadata"), dict) or not isinstance(pod.get("spec"), dict):
        return None
    return common_part(pod)


def common_request(request: Request, common: Object) -> Request:
    """The request as rules see it: about the common part of its pod, without a user.

    Exemptions of the user must be in the settings already (`policies.rules.settings.settings_for`).
    """
    return replace(request, object=common, name="", uid="", user=ANONYMOUS)


def common_part(pod: Object) -> Object:
    """A pod of any shape without what may differ between the pods of one template.

    Parents of removed fields and the places in lists stay, so that a patch of the common part is also one of the whole
    pod. Labels and annotations of another type than text stay too: they make a pod malformed.
    """
    common = dict(pod)
    if isinstance(metadata := pod.get("metadata"), dict):
        common["metadata"] = _common_metadata(metadata)
    if isinstance(spec := pod.get("spec"), dict):
        common["spec"] = _common_spec(spec)
    return common


def _common_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    common = {field: value for field, value in metadata.items() if field not in _OWN}
    for field, prefixes in _READ.items():
        if isinstance(texts := common.get(field), dict):
            common[field] = {
                key: text
                for key, text in texts.items()
                if not isinstance(text, str) or not isinstance(key, str) or key.startswith(prefixes)
            }
    if isinstance(owners := common.get("ownerReferences"), list):
        common["ownerReferences"] = [
            {field: value for field, value in owner.items() if field not in _OWN_TO_OWNER}
            if isinstance(owner, dict)
            else owner
            for owner in owners
        ]
    return common


def _common_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """The spec without its host name and the claims of a StatefulSet; token volumes have one name."""
    common = spec.copy()
    common.pop("hostname", None)
    volumes = spec.get("volumes")
    if not isinstance(volumes, list):
        return common
    tokens, others = [], []
    common["volumes"] = changed = volumes.copy()
    for place, volume in enumerate(volumes):
        if not isinstance(volume, dict):
            continue
        name = volume.get("name")
        if isinstance(name, str) and _is_token(volume):
            tokens.append(name)
            changed[place] = {**volume, "name": _TOKEN_VOLUME}
            continue
        others.append(name)
        claim = volume.get("persistentVolumeClaim")
        if isinstance(claim, dict) and isinstance(claim.get("claimName"), str):
            changed[place] = {**volume, "persistentVolumeClaim": {**claim, "claimName": ""}}
    # The API server refuses two volumes of one name; a file may have them.
    names = {name for name in tokens if name not in others}
    for field in _CONTAINERS if names else ():
        if isinstance(containers := spec.get(field), list):
            common[field] = [_common_container(container, names) for container in containers]
    return common


_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_TOKEN_VOLUME = "kube-api-access-"  # noqa: S105 - the name of a volume
"""Replaces the names of token volumes, to which the API server adds random characters. No volume may have this name."""
_FIELDS_OF_TOKENS = {"name", "projected"}


def _is_token(volume: dict[str, Any]) -> bool:
    """True for a volume that holds nothing of the node, but a token of the pod's service account.

    Source: k8s.io/kubernetes plugin/pkg/admission/serviceaccount/admission.go TokenVolumeSource.
    """
    return volume.keys() == _FIELDS_OF_TOKENS and any(
        isinstance(source, dict) and source.get("serviceAccountToken")
        for source in items_at(volume, ("projected", "sources"))
    )


def _common_container(container: Any, tokens: set[str]) -> Any:
    mounts = container.get("volumeMounts") if isinstance(container, dict) else None
    if not isinstance(mounts, list):
        return container
    named = [
        {**mount, "name": _TOKEN_VOLUME}
        if isinstance(mount, dict) and isinstance(name := mount.get("name"), str) and name in tokens
        else mount
        for mount in mounts
    ]
    return {**container, "volumeMounts": named}


def as_created(pod: Object) -> Object:
    """The pod as it was when it was created: without node, status and ephemeral containers."""
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    created = {field: value for field, value in spec.items() if field not in ("nodeName", "ephemeralContainers")}
    return {field: value for field, value in pod.items() if field != "status"} | {"spec": created}


def as_running(pod: Object, view: ClusterView, settings: GPUAdmissionPolicy) -> Object:
    """The pod as rules for new pods judge what it has now.

    It keeps its ephemeral containers, and of its status the extended resources that a claim gives it. It keeps its node
    only if it runs there without a resource that it requests: a scheduler would not have chosen the node.
    """
    spec = pod.get("spec")
    if not isinstance(spec, dict):
        return pod
    is_elsewhere = bool(spec.get("nodeName")) and any(unmet_requests(pod, view, settings))
    kept = spec if is_elsewhere else {field: value for field, value in spec.items() if field != "nodeName"}
    mappings = [{"resourceName": name} for name in sorted(resources_in_claim(pod.get("status")))]
    status = {"extendedResourceClaimStatus": {"requestMappings": mappings}} if mappings else {}
    return {**pod, "spec": kept, "status": status}


def form_of(common: Object) -> bytes:
    """A hash of 16 bytes of the common part of a pod, as it is written: the order of its fields counts."""
    # JSON takes five times as long, or a library that takes a command longer to load than it saves.
    return hashlib.sha256(marshal.dumps(common, 2)).digest()[:16]


def controller_label(document: Object) -> str:
    """Kind and name of an object's controller, such as `ReplicaSet train-5d8f`; empty if it has none."""
    owner = controller_of(document)
    return "" if owner is None else f"{owner.get('kind')} {owner.get('name')}"


_FIELDS_OF_REQUESTS = ("name", "resources", "restartPolicy")
"""The fields of a container that conversion reads."""


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
