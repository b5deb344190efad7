"""Quotas: the charge of a pod or claim, and whether it fits. `webhook.ledger` stores charges."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.rules.checks import Check

__all__ = ["checks"]


def checks() -> tuple[Check[...], ...]:
    """All checks of quotas."""
    from policies.quota import charging, native_limits, outcomes, queues, workload_totals
    from policies.quota.limits import rules

    return (
        charging.existing_references,
        native_limits.uncounted_limits,
        native_limits.equal_limits,
        native_limits.imposed_gpus,
        queues.selected_labels,
        queues.counted_resources,
        queues.mapped_classes,
        rules.readable_quota,
        rules.effective_quota,
        rules.counting_limits,
        rules.effective_team_quota,
        outcomes.within_quota,
        outcomes.countable_charge,
        outcomes.written_charge,
        workload_totals.room_for_all,
    )
