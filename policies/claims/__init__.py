"""Validates claims, templates, DeviceClasses and ComputeDomains before anything comes of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.claims import (  # noqa: F401 - these modules register their rules
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
)
from policies.claims.claim_subject import CLAIMS, Facts, Subject
from policies.claims.selector_compilation import comparison_notice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["validate"]


def validate(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """Findings for a claim, template, DeviceClass or ComputeDomain; none for objects of other kinds."""
    subject = Subject.of(request, Facts(view, settings, compares=request.compares))
    if subject is not None:
        subject.effort.reserve([selector.text for selector in subject.selectors])
        yield from CLAIMS.run(subject)
        if (cut := comparison_notice(subject)) is not None:
            yield cut
