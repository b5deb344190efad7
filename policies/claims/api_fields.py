"""The fields of a version of the API, their types, and those that are dropped silently."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.claims.claim_subject import ALL_KINDS, CLAIMS
from policies.devices.claim_schemas import EXACT_REQUEST_FIELDS, schema_of
from policies.devices.device_taint_rules import KIND, TAINT_RULE_VERSIONS
from policies.kubernetes.names import printable
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.schema import find_problems
from policies.kubernetes.versions import Feature, Stage, is_newer_than_known, version_text
from policies.kubernetes.view import UNKNOWN
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from policies.claims.claim_subject import Subject
    from policies.kubernetes.schema import SchemaProblem


_PATH = FieldPath(["apiVersion"])
_COMPUTE_DOMAIN = "resource.nvidia.com/v1beta1"
_SERVED = {"v1": Feature.ResourceV1, "v1beta2": Feature.ResourceV1Beta2, "v1beta1": Feature.ResourceV1Beta1}


@ALL_KINDS.rule(
    "GA200",
    "The API version must exist and be served",
    remedy="write apiVersion: resource.k8s.io/v1",
    source="k8s.io/api/resource, the lifecycle of its types; the CRD of dra-driver-nvidia-gpu",
)
def served_version(subject: Subject) -> Iterator[Problem]:
    """Until Kubernetes 1.34 dynamic resource allocation changed its API with every release.

    The API server knows v1 since 1.34. The beta versions are served only where the administrator has turned them on,
    and leave with 1.38 and 1.39; a request for a version that is not served ends in "no matches for kind".
    """
    if subject.served:
        return
    written = subject.object.get("apiVersion")
    unmatched = f'no matches for kind "{subject.kind}" in version "{printable(str(written))}"'
    if subject.kind == "ComputeDomain":
        if written != _COMPUTE_DOMAIN:
            yield Problem(_PATH, unmatched, f"write apiVersion: {_COMPUTE_DOMAIN}")
        return
    if schema_of(subject.kind, subject.version) is None:
        yield Problem(_PATH, unmatched)
        return
    running = subject.facts.view.server_version()
    if running is UNKNOWN:
        return
    by_version = TAINT_RULE_VERSIONS if subject.kind == KIND else _SERVED
    release, api, newest = version_text(running), by_version[subject.version], by_version["v1"]
    stage = api.stage_in(running)
    if stage is None:
        served = [version for version in by_version if by_version[version].stage_in(running) is not None]
        remedy = "upgrade the cluster"
        if served:
            remedy += f", or write apiVersion: resource.k8s.io/{served[0]} once it is turned on"
        text = f"{unmatched}, which came with Kubernetes {api.introduced}; the cluster runs {release}"
        yield Problem(_PATH, text, remedy)
    elif stage is Stage.REMOVED:
        yield Problem(_PATH, f"{unmatched}, which is gone from Kubernetes {release}")
    elif not stage.is_on and newest.default_in(running):
        text = f"is served by Kubernetes {release} only where the administrator has turned it on"
        flat = subject.version == "v1beta1" and subject.kind != "DeviceClass"
        advice = "write apiVersion: resource.k8s.io/v1, with the fields of the request under exactly" if flat else None
        yield Problem(_PATH, text, advice, severity=Severity.WARN)


class _Field(NamedTuple):
    """A field that depends on a feature gate."""

    name: str
    gate: Feature
    consequence: str
    remedy: str


_GATED_FIELDS = (
    _Field("adminAccess", Feature.DRAAdminAccess, "the claim takes the devices for itself alone", "remove it"),
    _Field("tolerations", Feature.DRADeviceTaints, "no taint of a device is tolerated, or looked at", "remove them"),
    _Field("capacity", Feature.DRAConsumableCapacity, "the claim takes whole devices", "remove it"),
)
_PRIORITIZED = _Field(
    "firstAvailable", Feature.DRAPrioritizedList, "a request without devices is refused", "write exactly"
)
_REFUSED = "a constraint without an attribute is refused"
_DISTINCT = _Field("distinctAttribute", Feature.DRAConsumableCapacity, _REFUSED, "remove the constraint")


@CLAIMS.rule(
    "GA225",
    "Fields must be supported by this version of Kubernetes",
    default=Severity.WARN,
    remedy="remove the field, or upgrade the cluster",
    source="k8s.io/kubernetes pkg/registry/resource/resourceclaim/strategy.go dropDisabledFields; "
    "pkg/features/kube_features.go",
)
def dropped_fields(subject: Subject) -> Iterator[Problem]:
    """The API server silently drops the fields of a feature gate that is off when a claim is created.

    The stored claim differs from what was written. Feature gates can be turned on, and what is
    on by default follows from the version of the cluster.
    """
    running = subject.facts.view.server_version()
    # The API server has dropped it from what it sends; and an update keeps what was there.
    if running is UNKNOWN or subject.served or subject.old is not None:
        return
    for path, known in _gated_fields(subject):
        if known.gate.is_on(subject.facts.view) is False:
            text = f"is dropped by Kubernetes {version_text(running)} unless the feature gate {known.gate.name} is on: "
            yield Problem(path, text + known.consequence, known.gate.remedy_in(running, known.remedy))


def _gated_fields(subject: Subject) -> Iterator[tuple[FieldPath, _Field]]:
    """The fields that are written and depend on a gate."""
    for request in subject.requests:
        if request.is_prioritized:
            yield request.path / "firstAvailable", _PRIORITIZED
    for subrequest in subject.subrequests:
        for known in _GATED_FIELDS:
            value = subrequest.fields.get(known.name)
            if value and (known.name != "capacity" or lookup(value, ("requests",))):
                yield subrequest.path / known.name, known
    for constraint in subject.constraints:
        if constraint.fields.get("distinctAttribute") and not constraint.fields.get("matchAttribute"):
            yield constraint.path / "distinctAttribute", _DISTINCT


def _problems(subject: Subject) -> Iterator[SchemaProblem]:
    schema = schema_of(subject.kind, subject.version)
    if schema is not None:
        yield from find_problems(schema, subject.object, FieldPath())


@ALL_KINDS.rule(
    "GA201",
    "Fields must exist where they are written",
    remedy="remove it",
    source="k8s.io/api/resource/v1/types.go and v1beta1/types.go; strict decoding by kubectl",
    rows=("S-62",),
)
def known_fields(subject: Subject) -> Iterator[Problem]:
    """For kubectl the API server refuses an unknown field; for Helm, Argo CD and others it drops it.

    A claim of v1 that is written as v1beta1 had it loses its class, and one in a constraint or a
    selector loses what was to be kept apart. Fields of versions after 1.36 are not known here and only warned about.
    """
    if subject.served:
        return
    text = f"unknown field in {printable(str(subject.object.get('apiVersion')))}"
    may_be_newer = subject.kind == "ComputeDomain" or is_newer_than_known(subject.facts.view.server_version())
    flat: dict[FieldPath, list[str]] = {}
    for found in _problems(subject):
        path = found.path
        if found.kind != "unknown":
            continue
        if of_exact_request(subject, path):
            flat.setdefault(FieldPath(path[:-1]), []).append(str(path[-1]))
        elif path[-1] == "exactly" and subject.version == "v1beta1" and len(path) < len(subject.devices_path) + 4:
            yield Problem(path, text, "write what is in it in the request itself, or apiVersion: resource.k8s.io/v1")
        else:
            place = right_place(subject, path)
            remedy = place or found.remedy
            is_clear = place is not None or remedy.startswith(("write ", "move "))
            yield Problem(path, text, remedy, severity=Severity.WARN if may_be_newer and not is_clear else None)
    for path, names in flat.items():
        written = {name: lookup(subject.object, path / name) for name in names}
        first = "deviceClassName" if "deviceClassName" in names else names[0]
        remedy = f"indent {', '.join(names)} below exactly"
        if all(isinstance(value, str | int) for value in written.values()):
            plain = {
                name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in written.items()
            }
            fields = ", ".join(f"{name}: {printable(value)}" for name, value in plain.items())
            remedy = f"write exactly: {{{fields}}}"
        one = len(names) == 1
        said = (
            f"{text if one else text.replace('field', 'fields', 1)}, which has {'it' if one else 'them'} under exactly"
        )
        yield Problem(path / first, said, remedy)


@ALL_KINDS.rule(
    "GA202",
    "Values must have the types of the API",
    remedy="write a value of that type",
    source="k8s.io/api/resource/v1/types.go; the CRD of dra-driver-nvidia-gpu",
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
        path, value = found.path, lookup(subject.object, found.path)
        # What is missing may be what stands beside it under a wrong name, or a level too high.
        if found.kind == "required" and path[:-1] in misplaced:
            continue
        may_be_null = path[-3:-1] in (("capacity", "requests"), ("metadata", "labels"), ("metadata", "annotations"))
        # Another rule reports parameters.
        if path[-2:] == ("opaque", "parameters") or (value is None and may_be_null):
            continue
        if found.kind in ("type", "choice", "bound", "required"):
            yield Problem(path, found.message, _remedy(path, value) or found.remedy)


def _remedy(path: FieldPath, value: Any) -> str | None:
    match path:
        case (*_, "selectors", int()) | (*_, "cel") if isinstance(value, str):
            return 'write a condition such as cel: {expression: device.driver == "gpu.nvidia.com"}'
        case (*_, "resourceClaimTemplate") if isinstance(value, str):
            return f"write resourceClaimTemplate: {{name: {printable(value)}}}"
        case (*_, "requests" | "selectors" | "constraints" | "config" | "firstAvailable") if isinstance(value, dict):
            return "write a list: a dash before each entry"
        case _:
            return None


_DEVICES = frozenset({"requests", "constraints", "config"})
_PLACES: tuple[tuple[str, str, Collection[str], str], ...] = (
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
    ("Claim", r".*requests\.\[\](\.exactly)?", {"config", "constraints"}, "write it under devices, beside requests"),
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
    ("DeviceClass", r"spec", {"suitableNodes"}, "remove it; Kubernetes 1.32 dropped it, and pods choose their nodes"),
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
    ("DeviceTaintRule", r"", {"deviceSelector", "taint"}, "indent it below spec"),
    ("DeviceTaintRule", r"spec", {"driver", "pool", "device"}, "write it under deviceSelector"),
    ("DeviceTaintRule", r"spec", {"key", "value", "effect"}, "write it under taint"),
    (
        "DeviceTaintRule",
        r"spec\.deviceSelector",
        {"deviceClassName", "selectors"},
        "name the driver, the pool or the device; where the field is dropped, the rule selects more devices",
    ),
)
"""Of which kinds, under which parent, which fields: what to do with them. `Claim` is claims and templates."""


def right_place(subject: Subject, path: FieldPath) -> str | None:
    """The remedy for an unknown field; None if the intention is unclear.

    The fields of an exact request, which v1 and v1beta1 have in different places, are not reported here.
    """
    parent = ".".join("[]" if isinstance(step, int) else step for step in path[:-1])
    name = path[-1]
    kinds = ("", subject.kind, "Claim" if subject.claim else "")
    for kind, pattern, fields, remedy in _PLACES:
        if kind in kinds and name in fields and re.fullmatch(pattern, parent):
            return remedy
    return "write it under requests" if parent.endswith(("].capacity", "exactly.capacity")) else None


def of_exact_request(subject: Subject, path: FieldPath) -> bool:
    """True if an unknown field is one of an exact request, written where v1beta1 has it."""
    steps = path[len(subject.devices_path) : -1]
    is_exact = path[-1] in EXACT_REQUEST_FIELDS and subject.version != "v1beta1"
    return is_exact and len(steps) == 2 and steps[0] == "requests"
