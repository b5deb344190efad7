"""Feature gates: what the server and its controllers do only where it is switched on.

Source: pkg/features/kube_features.go of Kubernetes 1.36; dropDisabledFields in the strategies of pods and PodGroups.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from webhook.sandbox.kinds import Kind

__all__ = ["CLAIMS_OF_GROUPS", "GROUPS", "without_disabled"]

GROUPS = frozenset(["GenericWorkload"])
"""PodGroups are served, and pods say to which they belong."""
CLAIMS_OF_GROUPS = GROUPS | {"DRAWorkloadResourceClaims"}
"""The pods of a PodGroup share claims."""

_NEEDS = {"Pod": (GROUPS, "schedulingGroup"), "PodGroup": (CLAIMS_OF_GROUPS, "resourceClaims")}
"""By kind, which gates must be on for which field of the spec."""


def without_disabled(kind: Kind, document: Object, feature_gates: frozenset[str]) -> Object:
    """A new object without the fields of gates that are off."""
    needs, field = _NEEDS.get(kind.resource.kind, (frozenset(), ""))
    spec = document.get("spec")
    if needs <= feature_gates or not isinstance(spec, dict) or field not in spec:
        return document
    return {**document, "spec": {name: value for name, value in spec.items() if name != field}}
