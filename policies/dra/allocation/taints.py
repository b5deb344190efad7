"""Device taints: which of them keep a device from a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["first_untolerated"]

_PREVENTING = ("NoSchedule", "NoExecute")


def first_untolerated(
    taints: Iterable[Mapping[str, Any]], tolerations: Iterable[Mapping[str, Any]]
) -> Mapping[str, Any] | None:
    """The first taint that prevents allocation and that no toleration tolerates.

    Other effects, `None` and those of the future, prevent nothing.

    Source: k8s.io/dynamic-resource-allocation/resourceclaim/devicetoleration.go ToleratesTaint.
    """
    known = tuple(tolerations)
    for taint in taints:
        if taint.get("effect") in _PREVENTING and not any(_tolerates(toleration, taint) for toleration in known):
            return taint
    return None


def _tolerates(toleration: Mapping[str, Any], taint: Mapping[str, Any]) -> bool:
    if toleration.get("effect") and toleration["effect"] != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint.get("key"):
        return False
    operator = toleration.get("operator") or "Equal"
    if operator == "Equal":
        return (toleration.get("value") or "") == (taint.get("value") or "")
    return bool(operator == "Exists")
