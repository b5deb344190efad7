"""Conditions in the status of a GPUQuota."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.names import QUOTA_LABEL
from policies.kubernetes.objects import mappings_at
from policies.quota.limits.quota import ENFORCED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object
    from policies.quota.ledger.ledger import Ledger
    from policies.quota.limits.quota import Quota, QuotaError

__all__ = [
    "awaits_replicas",
    "enforced_condition",
    "not_counted_condition",
    "ready_condition",
    "says_that_all_have_seen",
    "unreadable_condition",
]

_READY, _ENFORCED = "Ready", "Enforced"
_LONGEST = 1000
"""Characters of a reason; conditions that are much longer are not carried along with the ledger."""


def ready_condition(ledger: Ledger, quota: Quota, *, guesses_memory: bool, began_anew: bool) -> Object:
    """The condition Ready after counting: True if every limit was counted.

    Args:
        ledger: With the counted amounts.
        quota: Of the namespace.
        guesses_memory: True if memory counted as 0 because the memory of every GPU is unknown.
        began_anew: True if the lists that were counted before are from another history of the API server.
    """
    missing = [limit.name for limit in quota.limits if ledger.used_amount(limit) is None]
    if missing:
        noun, it = ("limit", "it") if len(missing) == 1 else ("limits", "them")
        return not_counted_condition(
            f"{noun} {', '.join(missing)} cannot be counted while the amount of an open charge under {it} is unknown; counting "
            "resumes when the charged object is seen, or after two minutes"
        )
    sentences = ["All pods and claims of the namespace were counted."]
    if guesses_memory:
        sentences.append(
            "No node and no ResourceSlice says how much memory a GPU has, so memory counts as 0 unless the product says "
            "it; make GPU Feature Discovery label GPU nodes with nvidia.com/gpu.memory."
        )
    if began_anew:
        sentences.append(
            "The last count was made from newer lists than the API server has, as after etcd was restored from a backup, "
            "so counting began anew."
        )
    return _condition(_READY, "True", "Counted", " ".join(sentences))


def not_counted_condition(why: str) -> Object:
    """The condition Ready if counting failed; earlier counts and all charges since remain valid.

    Args:
        why: Without a full stop.
    """
    return _condition(_READY, "False", "NotCounted", f"{_capital(why)[:_LONGEST]}.")


def unreadable_condition(error: QuotaError) -> Object:
    """The condition Ready if the spec is invalid."""
    said = str(error)[:_LONGEST]
    return _condition(_READY, "False", "Unreadable", f"{said}. Until this is put right, nothing can be charged.")


def enforced_condition(namespace: str, exempt: str, *, is_enforced: bool, unseen: str = "") -> Object:
    """The condition Enforced: True if the quota fails closed while it cannot be charged.

    It is Unknown until all replicas have seen the GPUQuota.

    Args:
        namespace: Of the quota.
        exempt: Why the namespace is exempt from quotas, as a clause; empty if it is not.
        is_enforced: True if the namespace's label makes the quota fail closed.
        unseen: Why replicas may not have seen the GPUQuota yet, as a clause; empty if all have.
    """
    if exempt:
        said = f"Namespace {namespace} is exempt from quotas ({exempt}), so this GPUQuota limits nothing."
        return _condition(_ENFORCED, "False", "Exempt", said)
    if unseen:
        said = f"Not all replicas charge to this GPUQuota yet: {unseen}. What they admit meanwhile is counted when it is seen."
        return _condition(_ENFORCED, "Unknown", "NotSeen", said[:_LONGEST])
    if is_enforced:
        said = (
            f"Namespace {namespace} has the label {QUOTA_LABEL}: {ENFORCED}, so pods and claims that get GPUs are refused "
            "while the quota cannot be charged."
        )
        return _condition(_ENFORCED, "True", "Enforced", said)
    said = (
        f"Namespace {namespace} does not have the label {QUOTA_LABEL}: {ENFORCED}, so pods and claims that get GPUs are "
        "admitted without a charge while the quota cannot be charged."
    )
    return _condition(_ENFORCED, "False", "FailsOpen", said)


def says_that_all_have_seen(conditions: Iterable[Object]) -> bool:
    """True if a leader has written, by `enforced_condition`, that all replicas have seen the GPUQuota.

    The reason `Exempt` does not say so: the namespace may stop being exempt before all replicas have seen it.
    """
    seen = ("Enforced", "FailsOpen")
    return any(each.get("type") == _ENFORCED and each.get("reason") in seen for each in conditions)


def awaits_replicas(document: Object) -> bool:
    """True if replicas may not have seen a GPUQuota, as far as its status says."""
    return not says_that_all_have_seen(mappings_at(document, ("status", "conditions")))


def _condition(kind: str, status: str, reason: str, message: str) -> Object:
    return {"type": kind, "status": status, "reason": reason, "message": message}


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
