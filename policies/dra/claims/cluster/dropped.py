"""Fields that this version of Kubernetes drops silently."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.subject import CLAIMS
from policies.dra.feature_gates import ON_SINCE
from policies.kubernetes.paths import lookup
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject
    from policies.kubernetes.paths import FieldPath


class _Field(NamedTuple):
    """A field that depends on a feature gate."""

    name: str
    gate: str
    consequence: str
    remedy: str


_ASKED = (
    _Field("adminAccess", "DRAAdminAccess", "the claim takes the devices for itself alone", "remove it"),
    _Field("tolerations", "DRADeviceTaints", "no taint of a device is tolerated, or looked at", "remove them"),
    _Field("capacity", "DRAConsumableCapacity", "the claim takes whole devices", "remove it"),
)
_LIST = _Field(
    "firstAvailable", "DRAPrioritizedList", "a request without anything to ask for is refused", "write exactly"
)
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
)
def dropped_fields(subject: Subject) -> Iterator[Problem]:
    """What a feature gate stands for that is off, the API server drops when a claim is created, and says nothing.

    The claim that is stored asks for something else than what was written. Feature gates can be turned on, and what is
    on by default is all that the version of the cluster tells.
    """
    running = subject.facts.view.server_version()
    # What the API server asks about, it has dropped already; and an update keeps what was there.
    if running is UNKNOWN or subject.served or subject.old is not None:
        return
    release = ".".join(map(str, running))
    for path, known in _gated(subject):
        if subject.facts.offers(known.gate) is False:
            since = ".".join(map(str, ON_SINCE[known.gate]))
            text = f"is dropped by Kubernetes {release} unless the feature gate {known.gate} is on: {known.consequence}"
            yield problem(path, text, f"{known.remedy}, turn the gate on, or upgrade the cluster to {since}")


def _gated(subject: Subject) -> Iterator[tuple[FieldPath, _Field]]:
    """The fields that are written and depend on a gate."""
    for request in subject.requests:
        if request.is_prioritized:
            yield request.path / "firstAvailable", _LIST
    for subrequest in subject.subrequests:
        for known in _ASKED:
            value = subrequest.fields.get(known.name)
            if value and (known.name != "capacity" or lookup(value, ("requests",))):
                yield subrequest.path / known.name, known
    for constraint in subject.constraints:
        if constraint.fields.get("distinctAttribute") and not constraint.fields.get("matchAttribute"):
            yield constraint.path / "distinctAttribute", _DISTINCT
