"""Validates one claim, template, DeviceClass or ComputeDomain."""

from __future__ import annotations

from typing import TYPE_CHECKING

# Imported for the rules that they register.
from policies.dra.claims import (  # noqa: F401
    admin_access,
    constraints,
    immutability,
    limits,
    names,
    opaque,
    requests,
    selectors,
    shapes,
    versions,
)
from policies.dra.claims.cluster import (  # noqa: F401
    agreement,
    classes,
    matches,
    missing_attributes,
    spelling,
    typed_values,
)
from policies.dra.claims.facts import Facts
from policies.dra.claims.nvidia import (  # noqa: F401
    compute_domains,
    config_targets,
    decoding,
    mps,
    sharing,
)
from policies.dra.claims.subject import CLAIMS, Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["validate"]


def validate(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """Findings for a claim, template, DeviceClass or ComputeDomain; none for objects of other kinds."""
    subject = Subject.of(request, Facts(view, settings, compares=request.compares))
    if subject is not None:
        subject.facts.effort.reserve([selector.text for selector in subject.selectors])
        yield from CLAIMS.run(subject)
        if (cut := selectors.comparison_notice(subject)) is not None:
            yield cut
