"""Validates claims, classes, ComputeDomains and DeviceTaintRules before anything comes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.claims import (
    admin_access,
    api_fields,
    claim_sharing,
    compared_values,
    compute_domains,
    device_constraints,
    device_matches,
    immutability,
    missing_reads,
    nvidia_configs,
    object_names,
    requests,
    selected_devices,
    selector_compilation,
    taint_rules,
)
from policies.claims.claim_subject import Facts, Subject
from policies.claims.selector_compilation import comparison_notice
from policies.rules.checks import Checks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.view import ClusterView
    from policies.rules.checks import Check
    from policies.rules.decision import Finding
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["CLAIM_CHECKS", "checks", "validate"]


CLAIM_CHECKS: Checks[Subject] = Checks(
    admin_access.admin_access_label,
    admin_access.admin_access_requested,
    api_fields.served_version,
    api_fields.dropped_fields,
    api_fields.known_fields,
    api_fields.types,
    claim_sharing.mps_settings,
    claim_sharing.pinned_memory_limits,
    claim_sharing.sharing_strategies,
    claim_sharing.feature_gates,
    claim_sharing.time_slice_intervals,
    claim_sharing.vfio_configs,
    compared_values.spelling,
    compared_values.typed_values,
    compute_domains.domain_ids,
    compute_domains.hand_written_configs,
    compute_domains.channels_of_domains,
    compute_domains.template_names,
    compute_domains.counted_nodes,
    device_constraints.feasible_constraints,
    device_matches.matching_devices,
    device_matches.results,
    immutability.immutable_spec,
    immutability.no_status,
    missing_reads.unguarded_reads,
    missing_reads.removed_attributes,
    missing_reads.domains,
    nvidia_configs.named_alternatives,
    nvidia_configs.matching_types,
    nvidia_configs.effective_configs,
    nvidia_configs.hidden_configs,
    nvidia_configs.readable_kinds,
    nvidia_configs.strict_fields,
    nvidia_configs.decodable_values,
    object_names.list_lengths,
    object_names.object_names,
    object_names.extended_resource_names,
    requests.request_names,
    requests.one_way_of_asking,
    requests.class_names,
    requests.amounts,
    requests.toleration_syntax,
    requests.capacity_names,
    requests.constrained_attributes,
    requests.references,
    requests.opaque_configs,
    selected_devices.existing_classes,
    selected_devices.single_extended_resources,
    selector_compilation.compilable_selectors,
    selector_compilation.affordable_selectors,
)
"""The checks of claims, templates, DeviceClasses and ComputeDomains."""

_OF_TAINT_RULES = (
    taint_rules.effective_taint_rule,
    taint_rules.evicting_taint_rule,
    taint_rules.narrow_taint_rule,
    taint_rules.own_taint_key,
    taint_rules.valid_taint_rule,
)
_TAINT_RULE_CHECKS: Checks[Subject] = Checks(
    *(each for each in CLAIM_CHECKS.all if "DeviceTaintRule" in each.rule.kinds), *_OF_TAINT_RULES
)


def checks() -> tuple[Check[...], ...]:
    """All checks of claims."""
    return (*CLAIM_CHECKS.all, admin_access.admin_access_allowed, *_OF_TAINT_RULES)


def validate(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """Findings for an object of the kinds that `checks` are about; none for others."""
    subject = Subject.of(request, Facts(view, settings, compares=request.compares))
    if subject is not None and subject.kind == "DeviceTaintRule":
        yield from _TAINT_RULE_CHECKS.run(subject)
    elif subject is not None:
        subject.effort.reserve([selector.text for selector in subject.selectors])
        yield from CLAIM_CHECKS.run(subject)
        if (cut := comparison_notice(subject)) is not None:
            yield cut
