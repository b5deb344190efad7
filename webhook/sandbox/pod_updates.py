"""What may change in the spec of a pod that exists.

Source: ValidatePodUpdate in kubernetes/pkg/apis/core/validation, 1.36.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webhook.sandbox.statuses import Cause

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["pod_update_problems"]

_IMMUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_MUTABLE = ("activeDeadlineSeconds", "tolerations", "terminationGracePeriodSeconds", "schedulingGates")
_WHILE_GATED = ("nodeSelector", "affinity")


def pod_update_problems(old: Object, new: Object) -> list[Cause]:
    """What an update of a pod changes though it must not.

    The API server adds a long listing of the difference to the text; the sandbox does not.
    """
    before, after = old.get("spec") or {}, new.get("spec") or {}
    causes = []
    if not _only_removed(before.get("schedulingGates") or [], after.get("schedulingGates") or []):
        causes.append(
            Cause("spec.schedulingGates", "Forbidden", "only deletion is allowed, but found new scheduling gates")
        )
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


def _only_removed(before: list[Any], after: list[Any]) -> bool:
    return all(item in before for item in after)


def _fixed(spec: Object, *, gated: bool) -> Object:
    """The part of a spec that stays as it is."""
    free = (*_MUTABLE, *(_WHILE_GATED if gated else ()))
    fixed = {key: value for key, value in spec.items() if key not in free}
    for field in ("containers", "initContainers"):
        if isinstance(fixed.get(field), list):
            fixed[field] = [
                {key: value for key, value in container.items() if key != "image"}
                for container in fixed[field]
                if isinstance(container, dict)
            ]
    return fixed
