"""What may change in the spec of a pod that exists.

Source: ValidatePodUpdate in kubernetes/pkg/apis/core/validation; the words as seen on Kubernetes 1.36.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson

from webhook.sandbox.statuses import Cause

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["pod_update_problems"]

_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_MUTABLE = ("activeDeadlineSeconds", "tolerations", "schedulingGates")
_CONTAINERS = ("containers", "initContainers")
_WHILE_GATED = ("nodeSelector", "affinity")


def pod_update_problems(old: Object, new: Object) -> list[Cause]:
    """What an update of a pod changes though it must not.

    The API server adds a long listing of the difference to the text; the sandbox does not.
    """
    before, after = old.get("spec") or {}, new.get("spec") or {}
    gates = before.get("schedulingGates") or []
    causes = [
        Cause(
            f"spec.schedulingGates[{index}].name",
            "Forbidden",
            f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'",
        )
        for index, gate in enumerate(after.get("schedulingGates") or [])
        if gate not in gates
    ]
    if changed := _changed_in_number(before, after):
        why = "pod updates may not add or remove containers"
        return [*causes, *(Cause(f"spec.{field}", "Forbidden", why) for field in changed)]
    selector = before.get("nodeSelector") or {}
    if gates and not selector.items() <= (after.get("nodeSelector") or {}).items():
        shown = orjson.dumps(after.get("nodeSelector")).decode()
        why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        return [*causes, Cause("spec.nodeSelector", "Invalid", f"{shown}: {why}")]
    kept = _fixed(before, gated=bool(before.get("schedulingGates")))
    if kept != _fixed(after, gated=bool(before.get("schedulingGates"))):
        causes.append(Cause("spec", "Forbidden", _IMMUTABLE))
    elif not _only_removed(after.get("tolerations") or [], before.get("tolerations") or []):
        causes.append(
            Cause(
                "spec.tolerations", "Forbidden", "existing toleration can not be modified except its tolerationSeconds"
            )
        )
    return causes


def _changed_in_number(before: Object, after: Object) -> list[str]:
    return [field for field in _CONTAINERS if len(before.get(field) or ()) != len(after.get(field) or ())]


def _only_removed(before: list[Any], after: list[Any]) -> bool:
    return all(item in before for item in after)


def _fixed(spec: Object, *, gated: bool) -> Object:
    """The part of a spec that stays as it is."""
    free = (*_MUTABLE, *(_WHILE_GATED if gated else ()))
    fixed = {key: value for key, value in spec.items() if key not in free}
    for field in _CONTAINERS:
        if isinstance(fixed.get(field), list):
            fixed[field] = [
                {key: value for key, value in container.items() if key != "image"}
                for container in fixed[field]
                if isinstance(container, dict)
            ]
    return fixed
