"""Fields that people write in the wrong place, and where they belong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.dra.claim_schemas import EXACT_REQUEST_FIELDS

if TYPE_CHECKING:
    from policies.dra.claims.subject import Subject
    from policies.kubernetes.paths import FieldPath

__all__ = ["right_place"]

_DEVICES = frozenset({"requests", "constraints", "config"})
_PLACES: tuple[tuple[str, re.Pattern[str], frozenset[str], str], ...] = tuple(
    (kind, re.compile(parent), frozenset(fields), remedy)
    for kind, parent, fields, remedy in (
        ("Claim", r"", {"devices", *_DEVICES}, "indent it below spec"),
        ("Claim", r"spec(\.spec)?", _DEVICES, "write it under devices"),
        (
            "Claim",
            r"spec(\.spec)?",
            {"resourceClassName", "parametersRef", "allocationMode", "controller"},
            "remove it, and ask for devices of a DeviceClass under devices; it is a field of versions before v1alpha3",
        ),
        ("ResourceClaimTemplate", r"spec", {"devices"}, "write it under spec.spec, one level deeper than in a claim"),
        ("ResourceClaim", r"spec", {"spec"}, "write what is in it under spec; only a template has spec.spec"),
        ("ResourceClaim", r"spec", {"metadata"}, "write it beside spec; only a template has spec.metadata"),
        (
            "Claim",
            r".*requests\.\[\](\.exactly)?",
            {"config", "constraints"},
            "write it under devices, beside requests",
        ),
        ("Claim", r".*requests\.\[\]\.exactly", {"name"}, "write it beside exactly"),
        ("Claim", r".*requests\.\[\]\.exactly", {"firstAvailable"}, "write it in the place of exactly"),
        ("Claim", r".*firstAvailable\.\[\]", {"adminAccess"}, "remove it; only an exact request can have it"),
        (
            "Claim",
            r".*firstAvailable\.\[\]",
            {"exactly", "firstAvailable"},
            "write what is in it in the alternative itself",
        ),
        ("Claim", r".*(requests|firstAvailable)\.\[\](\.exactly)?", {"cel"}, "write selectors: [{cel: ...}]"),
        ("Claim", r".*constraints\.\[\]", {"cel", "selectors", "matchExpression"}, "write a selector in the request"),
        ("", r".*selectors\.\[\]", {"expression"}, "write it under cel"),
        ("", r".*config\.\[\]", {"driver", "parameters"}, "write it under opaque"),
        ("DeviceClass", r"", {"selectors", "config", "extendedResourceName"}, "indent it below spec"),
        ("DeviceClass", r"spec", {"devices", "requests", "constraints"}, "remove it; a ResourceClaim asks for devices"),
        (
            "DeviceClass",
            r"spec",
            {"suitableNodes"},
            "remove it; Kubernetes 1.32 dropped it, and pods choose their nodes",
        ),
        ("DeviceClass", r"spec", {"driver", "opaque"}, "write it under config, in an entry of the list"),
        ("DeviceClass", r"spec\.config\.\[\]", {"requests"}, "remove it; the config of a class is for all its devices"),
        ("ComputeDomain", r"", {"numNodes", "channel"}, "indent it below spec"),
        ("ComputeDomain", r"spec", {"resourceClaimTemplate", "allocationMode"}, "write it under channel"),
        (
            "ComputeDomain",
            r"spec\.channel",
            {"name", "resourceClaimTemplateName"},
            "write resourceClaimTemplate: {name: ...}",
        ),
        ("ComputeDomain", r"spec\.channel", {"numNodes"}, "write it under spec"),
    )
)
"""Of which kinds, under which parent, which fields: what to do with them. `Claim` is claims and templates."""


def right_place(subject: Subject, path: FieldPath) -> str | None:
    """What to do with an unknown field; None where nobody knows what was meant.

    The fields of an exact request, which v1 and v1beta1 have in different places, are not told here.
    """
    parent = ".".join("[]" if isinstance(step, int) else step for step in path[:-1])
    name = path[-1]
    claim = subject.kind in ("ResourceClaim", "ResourceClaimTemplate")
    for kind, pattern, fields, remedy in _PLACES:
        meant = kind in ("", subject.kind) or (kind == "Claim" and claim)
        if meant and name in fields and pattern.fullmatch(parent):
            return remedy
    if parent.endswith(("].capacity", "exactly.capacity")):
        return "write it under requests"
    return None


def of_exact_request(subject: Subject, path: FieldPath) -> bool:
    """Whether an unknown field is one of an exact request, written where v1beta1 has it."""
    steps = path[len(subject.devices_path) : -1]
    return (
        path[-1] in EXACT_REQUEST_FIELDS and len(steps) == 2 and steps[0] == "requests" and subject.version != "v1beta1"
    )
