"""Validates one claim, template, DeviceClass or ComputeDomain."""

from __future__ import annotations

from typing import TYPE_CHECKING

# Imported for the rules that they register, in the order in which these are told: what the API server says comes first.
# isort: off
from policies.dra.claims import (  # noqa: F401
    versions,
    shapes,
    names,
    request_names,
    prioritized_lists,
    exact_requests,
    limits,
    tolerations,
    capacity,
    constraints,
    references,
    opaque,
    device_classes,
    selectors,
    immutability,
    status,
)
from policies.dra.claims import admin_access  # noqa: F401
from policies.dra.claims.cluster import (  # noqa: F401
    classes,
    dropped,
    results,
    domains,
    removed,
    typed_values,
    unguarded,
    spelling,
    matches,
    agreement,
)
from policies.dra.claims import nvidia  # noqa: F401

# isort: on
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.facts import Facts
from policies.dra.claims.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["validate"]


def validate(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """Everything that is wrong with what is created; nothing for kinds that are not of dynamic resource allocation."""
    subject = Subject.of(request, Facts(view, settings, compares=request.compares))
    if subject is not None:
        subject.facts.effort.reserve([selector.text for selector in subject.selectors])
        yield from CLAIMS.run(subject)
        if (cut := selectors.uncompared(subject)) is not None:
            yield cut
