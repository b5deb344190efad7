"""The book of all rules: those of each subject, and those of admission itself."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from policies.rules.checks import RuleBook

if TYPE_CHECKING:
    from policies.rules.checks import Check


@cache
def rule_book() -> RuleBook:
    """All rules. The first call imports all of them, which takes longer than the review of a pod."""
    from policies import access, claims, configuration, conversion, placement, quota

    subjects = (access, claims, configuration, conversion, placement, quota)
    return RuleBook.of((*checks(), *(check for subject in subjects for check in subject.checks())))


def checks() -> tuple[Check[...], ...]:
    """The checks of admission itself: of manifests, namespaces, the shape of pods, and waivers."""
    from policies.admission import coverage, namespaces, pods
    from policies.rules import waivers

    return (
        coverage.unique_keys,
        coverage.reviewed_kind,
        namespaces.known_values,
        namespaces.exempt_namespace,
        namespaces.unchecked_rights,
        namespaces.converting_workloads,
        pods.known_namespace,
        pods.well_formed_pod,
        pods.accepted_fields,
        waivers.valid_waivers,
        waivers.matching_waiver,
    )
