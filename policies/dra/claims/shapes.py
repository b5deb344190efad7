"""The fields of a version of the API, and their types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claim_schemas import EXACT_REQUEST_FIELDS, schema_of
from policies.dra.claims.subject import CLAIM_OR_TEMPLATE, CLAIMS, COMPUTE_DOMAIN, DEVICE_CLASS
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import printable
from policies.schema import find_problems
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject
    from policies.schema import SchemaProblem

__all__ = ["right_place"]

_KNOWN = (1, 36)
"""The newest version of Kubernetes whose fields are all in the schemas."""


def _problems(subject: Subject) -> Iterator[SchemaProblem]:
    schema = schema_of(subject.kind, subject.version)
    if schema is not None:
        yield from find_problems(schema, subject.object, FieldPath())


@CLAIMS.rule(
    "GA201",
    "Fields must exist where they are written",
    default=Severity.DENY,
    remedy="remove it",
    source="k8s.io/api/resource/v1/types.go and v1beta1/types.go; strict decoding by kubectl",
    rows=("S-62",),
    kinds=(*CLAIM_OR_TEMPLATE, *DEVICE_CLASS, *COMPUTE_DOMAIN),
)
def known_fields(subject: Subject) -> Iterator[Problem]:
    """For kubectl the API server refuses an unknown field; for Helm, Argo CD and others it drops it.

    A claim of v1 that is written as v1beta1 had it loses its class, and one in a constraint or a
    selector loses what was to be kept apart. Fields of versions after 1.36 are not known here and only warned about.
    """
    if subject.served:
        return
    flat: dict[FieldPath, list[str]] = {}
    for found in _problems(subject):
        if found.kind != "unknown":
            continue
        if of_exact_request(subject, found.path):
            flat.setdefault(FieldPath(found.path[:-1]), []).append(str(found.path[-1]))
        elif (
            found.path[-1] == "exactly"
            and subject.version == "v1beta1"
            and len(found.path) < len(subject.devices_path) + 4
        ):
            remedy = "write what is in it in the request itself, or apiVersion: resource.k8s.io/v1"
            yield problem(found.path, _unknown_text(subject), remedy)
        else:
            yield _unknown_field(subject, found)
    for path, names in flat.items():
        first = "deviceClassName" if "deviceClassName" in names else names[0]
        text = f"{_unknown_text(subject)}, which has {'it' if len(names) == 1 else ', '.join(names)} under exactly"
        yield problem(path / first, text, _below_exactly(lookup(subject.object, path), names))


def _unknown_text(subject: Subject) -> str:
    return f"unknown field in {printable(str(subject.object.get('apiVersion')))}"


def _unknown_field(subject: Subject, found: SchemaProblem) -> Problem:
    place = right_place(subject, found.path)
    remedy = place or found.remedy
    running = subject.facts.view.server_version()
    newer = subject.kind == "ComputeDomain" or (running is not UNKNOWN and running > _KNOWN)
    guessed = remedy.startswith("write ") or place is not None
    return problem(
        found.path, _unknown_text(subject), remedy, severity=Severity.WARN if newer and not guessed else None
    )


def _below_exactly(request: dict[str, Any], names: list[str]) -> str:
    """What to write in the place of flat fields, if that is short."""
    if not all(isinstance(request[name], str | int) for name in names):
        return f"indent {', '.join(names)} below exactly"
    return f"write exactly: {{{', '.join(f'{name}: {_plain(request[name])}' for name in names)}}}"


def _plain(value: str | bool | int) -> str:
    return str(value).lower() if isinstance(value, bool) else printable(str(value))


@CLAIMS.rule(
    "GA202",
    "Values must have the types of the API",
    default=Severity.DENY,
    remedy="write a value of that type",
    source="k8s.io/api/resource/v1/types.go; the CRD of dra-driver-nvidia-gpu",
    kinds=(*CLAIM_OR_TEMPLATE, *DEVICE_CLASS, *COMPUTE_DOMAIN),
)
def types(subject: Subject) -> Iterator[Problem]:
    """The API server cannot read the object, and answers with "cannot unmarshal string".

    Nothing else is checked of a part that has the wrong type. A null counts as a field that is not there.
    """
    if subject.served:
        return
    problems = list(_problems(subject))
    misplaced = {found.path[:-1] for found in problems if found.kind == "unknown"}
    for found in problems:
        value = lookup(subject.object, found.path)
        # What is missing may be what stands beside it under a wrong name, or a level too high.
        if found.kind == "required" and found.path[:-1] in misplaced:
            continue
        if found.kind not in ("type", "choice", "bound", "required") or _is_reported_elsewhere(found.path, value):
            continue
        yield problem(found.path, found.message, _remedy(found.path, value) or found.remedy)


_MAY_BE_NULL = (("capacity", "requests"), ("metadata", "labels"), ("metadata", "annotations"))


def _is_reported_elsewhere(path: FieldPath, value: Any) -> bool:
    """True if another rule reports it (parameters), or a null is allowed (quantities, values of labels)."""
    return path[-2:] == ("opaque", "parameters") or (value is None and path[-3:-1] in _MAY_BE_NULL)


def _remedy(path: FieldPath, value: Any) -> str | None:
    match path:
        case (*_, "selectors", int()) | (*_, "cel") if isinstance(value, str):
            return "write cel: {expression: ...}"
        case (*_, "resourceClaimTemplate") if isinstance(value, str):
            return f"write resourceClaimTemplate: {{name: {printable(value)}}}"
        case (*_, "requests" | "selectors" | "constraints" | "config" | "firstAvailable") if isinstance(value, dict):
            return "write a list: a dash before each entry"
        case _:
            return None


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
            "remove it, and request devices of a DeviceClass under devices; it is a field of versions before v1alpha3",
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
        ("DeviceClass", r"spec", {"devices", "requests", "constraints"}, "remove it; a ResourceClaim requests devices"),
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
    """What to do with an unknown field; None if the intention is unclear.

    The fields of an exact request, which v1 and v1beta1 have in different places, are not reported here.
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
    """True if an unknown field is one of an exact request, written where v1beta1 has it."""
    steps = path[len(subject.devices_path) : -1]
    return (
        path[-1] in EXACT_REQUEST_FIELDS and len(steps) == 2 and steps[0] == "requests" and subject.version != "v1beta1"
    )
