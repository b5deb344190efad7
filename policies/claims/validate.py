"""Validates one claim, template, DeviceClass or ComputeDomain."""

from __future__ import annotations

from typing import TYPE_CHECKING

# Imported for the rules that they register.
from policies.claims import (
    admin_access,  # noqa: F401
    constraints,  # noqa: F401
    immutability,  # noqa: F401
    names,  # noqa: F401
    requests,  # noqa: F401
    selectors,
    shapes,  # noqa: F401
)
from policies.claims.cluster import (
    agreement,  # noqa: F401
    classes,  # noqa: F401
    matches,  # noqa: F401
    missing_reads,  # noqa: F401
    spelling,  # noqa: F401
    typed_values,  # noqa: F401
)
from policies.claims.nvidia import (
    compute_domains,  # noqa: F401
    configs,  # noqa: F401
    decoding,  # noqa: F401
    sharing,  # noqa: F401
)
from policies.claims.subject import CLAIMS, Facts, Subject

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
        subject.facts.effort.reserve([selector.text for selector in subject.selectors])
        yield from CLAIMS.run(subject)
        if (cut := selectors.comparison_notice(subject)) is not None:
            yield cut
