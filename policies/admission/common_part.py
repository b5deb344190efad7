"""The common part of pods: what the pods of one Deployment or Job have in common, and rules may read.

A server answers the second pod of a template as it answered the first. It gives rules only the common part of a pod, so
that no answer can depend on the rest.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.admission.pods import creates_pod
from policies.request import ANONYMOUS

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.request import Concern, Request

__all__ = ["REPEATABLE", "common_object", "common_request"]

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

    Exemptions of the user must be in the settings already (`policies.settings.settings_for`).
    """
    return replace(request, object=common, name="", uid="", user=ANONYMOUS)


def _remove_texts(metadata: dict[str, Any], field: str, keys: tuple[str, ...]) -> None:
    """Remove members of a mapping that are texts; a member of another type makes a pod malformed."""
    members = metadata.get(field)
    if isinstance(members, dict) and not members.keys().isdisjoint(keys):
        kept = {key: value for key, value in members.items() if key not in keys or not isinstance(value, str)}
        metadata[field] = kept
