"""What a version of Kubernetes serves, and which fields it drops silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.allocation.features import ON_SINCE
from policies.dra.claim_schemas import VERSIONS, schema_of
from policies.dra.claims.subject import CLAIM_OR_TEMPLATE, CLAIMS, COMPUTE_DOMAIN, DEVICE_CLASS
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import printable
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject

_PATH = FieldPath(["apiVersion"])
_COMPUTE_DOMAIN = "resource.nvidia.com/v1beta1"
_SERVED = {"v1": (1, 34), "v1beta2": (1, 33), "v1beta1": (1, 32)}
_REMOVED = {"v1beta2": (1, 39), "v1beta1": (1, 38)}
"""The versions of Kubernetes that were the first to serve a version of resource.k8s.io, and that no longer do."""


@CLAIMS.rule(
    "GA200",
    "The API version must exist and be served",
    default=Severity.DENY,
    remedy="write apiVersion: resource.k8s.io/v1",
    source="k8s.io/api/resource, the lifecycle of its types; the CRD of dra-driver-nvidia-gpu",
    kinds=(*CLAIM_OR_TEMPLATE, *DEVICE_CLASS, *COMPUTE_DOMAIN),
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
            yield problem(_PATH, unmatched, f"write apiVersion: {_COMPUTE_DOMAIN}")
        return
    if schema_of(subject.kind, subject.version) is None:
        yield problem(_PATH, unmatched)
        return
    running = subject.facts.view.server_version()
    if running is UNKNOWN:
        return
    release = ".".join(map(str, running))
    if running < _SERVED[subject.version]:
        served = [version for version in VERSIONS if running >= _SERVED[version]]
        remedy = (
            f"upgrade the cluster, or write apiVersion: resource.k8s.io/{served[0]} once it is turned on"
            if served
            else "upgrade the cluster"
        )
        first = ".".join(map(str, _SERVED[subject.version]))
        yield problem(_PATH, f"{unmatched}, which came with Kubernetes {first}; the cluster runs {release}", remedy)
    elif subject.version in _REMOVED and running >= _REMOVED[subject.version]:
        yield problem(_PATH, f"{unmatched}, which is gone from Kubernetes {release}")
    elif subject.version in _REMOVED and running >= _SERVED["v1"]:
        text = f"is served by Kubernetes {release} only where the administrator has turned it on"
        flat = subject.version == "v1beta1" and subject.kind != "DeviceClass"
        advice = "write apiVersion: resource.k8s.io/v1, with the fields of the request under exactly" if flat else None
        yield problem(_PATH, text, advice, severity=Severity.WARN)


class _Field(NamedTuple):
    """A field that depends on a feature gate."""

    name: str
    gate: str
    consequence: str
    remedy: str


_GATED_FIELDS = (
    _Field("adminAccess", "DRAAdminAccess", "the claim takes the devices for itself alone", "remove it"),
    _Field("tolerations", "DRADeviceTaints", "no taint of a device is tolerated, or looked at", "remove them"),
    _Field("capacity", "DRAConsumableCapacity", "the claim takes whole devices", "remove it"),
)
_PRIORITIZED = _Field("firstAvailable", "DRAPrioritizedList", "a request without devices is refused", "write exactly")
_DISTINCT = _Field(
    "distinctAttribute",
    "DRAConsumableCapacity",
    "a constraint without an attribute is refused",
    "remove the constraint",
)


@CLAIMS.rule(
    "GA225",
    "Fields must be supported by this version of Kubernetes",
    default=Severity.WARN,
    remedy="remove the field, or upgrade the cluster",
    source="k8s.io/kubernetes pkg/registry/resource/resourceclaim/strategy.go dropDisabledFields; "
    "pkg/features/kube_features.go",
    kinds=CLAIM_OR_TEMPLATE,
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
    release = ".".join(map(str, running))
    for path, known in _gated_fields(subject):
        if subject.facts.offers(known.gate) is False:
            since = ".".join(map(str, ON_SINCE[known.gate]))
            text = f"is dropped by Kubernetes {release} unless the feature gate {known.gate} is on: {known.consequence}"
            yield problem(path, text, f"{known.remedy}, turn the gate on, or upgrade the cluster to {since}")


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
