"""Tolerations: which taints a pod puts up with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["tolerates_key", "tolerates_taint"]


def tolerates_key(tolerations: Iterable[dict[str, Any]], key: str, effect: str) -> bool:
    """Whether a taint with this key and effect is tolerated whatever its value.

    A toleration with `operator: Exists` does, for its key or, with an empty key, for all; an empty effect stands for
    every effect. One with `Equal` tolerates one value only, and a taint's value is the administrator's choice.

    Source: k8s.io/api/core/v1/toleration.go ToleratesTaint.
    """
    return any(
        toleration.get("operator") == "Exists"
        and toleration.get("key") in (None, "", key)
        and toleration.get("effect") in (None, "", effect)
        for toleration in tolerations
    )


def tolerates_taint(tolerations: Iterable[dict[str, Any]], taint: dict[str, Any]) -> bool:
    """Whether a taint, with the value that it has, is tolerated.

    Source: k8s.io/api/core/v1/toleration.go ToleratesTaint.
    """
    return any(
        toleration.get("effect") in (None, "", taint.get("effect"))
        and (toleration.get("key") or "") in ("", taint.get("key"))
        and (
            toleration.get("operator") == "Exists"
            or (toleration.get("value") or "") == (taint.get("value") or "")
            or toleration.get("operator") not in (None, "", "Equal")
        )
        for toleration in tolerations
    )
