"""Converts pods from extended resources to DRA claims for the devices that they would have held.

`convert.convert` converts one pod; `convert.check_conversion` finds pods that were not converted. docs/conversion.md has the design.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.rules.checks import Check

__all__ = ["checks"]


def checks() -> tuple[Check[...], ...]:
    """All checks of conversion."""
    from policies.conversion import (
        convert,
        converted_pods,
        device_parts,
        exemptions,
        gpu_amounts,
        gpu_semantics,
        preemption,
        strategies,
        surroundings,
    )

    return (
        convert.no_second_devices,
        convert.converted_pod,
        convert.no_gpu_labels,
        convert.exact_labels,
        convert.agreeing_terms,
        convert.few_devices,
        convert.short_selectors,
        converted_pods.equal_to_the_converted,
        converted_pods.unchanged_marks,
        converted_pods.unchanged_gpus,
        exemptions.existing_strategy,
        exemptions.exempt_user,
        exemptions.allocating_scheduler,
        exemptions.not_counted_by_kueue,
        exemptions.foreign_gpus,
        exemptions.opted_out,
        exemptions.allowed_opt_out,
        gpu_amounts.whole_amounts,
        gpu_amounts.equal_amounts,
        gpu_amounts.published_profile,
        gpu_amounts.reviewable_size,
        gpu_semantics.one_kind_of_device,
        device_parts.offered_wish_for_shares,
        device_parts.offered_shares,
        preemption.no_lost_preemption,
        strategies.capable_cluster,
        strategies.mapped_resources,
        strategies.only_a_class,
        strategies.existing_classes,
        strategies.claimable_nic,
        strategies.reported_choice,
        surroundings.existing_device,
        surroundings.own_template,
        surroundings.one_way_per_node,
        surroundings.kubelets_read_claims,
        surroundings.effective_quotas,
        surroundings.admitted_claims,
    )
