"""What is asked of one DeviceClass: the class, and how many devices of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claim_schemas import EXACT_REQUEST_FIELDS
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.field_errors import REQUIRED, invalid, unsupported
from policies.dra.claims.name_errors import as_dns_subdomain, subdomain_error
from policies.kubernetes.misspellings import closest
from policies.nvidia.identifiers import GPU_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject
    from policies.dra.resource_claims import Subrequest

_MODES = ("All", "ExactCount")


@CLAIMS.rule(
    "GA206",
    "A request must name a DeviceClass",
    default=Severity.DENY,
    remedy="add deviceClassName, such as gpu.nvidia.com for whole GPUs or mig.nvidia.com for slices",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceClass",
)
def class_names(subject: Subject) -> Iterator[Problem]:
    """Devices are asked for by their class only: it says which driver's devices are meant, and quotas count by it.

    A class has the name of an object. The names of extended resources, such as nvidia.com/gpu, are none.
    """
    for subrequest in subject.subrequests:
        path, name = subrequest.path / "deviceClassName", subrequest.fields.get("deviceClassName")
        if name is None or name == "":
            if not _is_told_as_misplaced(subject, subrequest):
                yield problem(path, REQUIRED)
        elif isinstance(name, str) and (error := subdomain_error(name)):
            meant = {GPU_RESOURCE: "gpu.nvidia.com"}.get(name) or as_dns_subdomain(name)
            yield problem(
                path, invalid(name, error), f'write "{meant}"' if meant else "write the name of a DeviceClass"
            )


def _is_told_as_misplaced(subject: Subject, subrequest: Subrequest) -> bool:
    """Whether the class stands under `exactly`, where v1beta1 does not look for it, or under a name that it has not."""
    misspelt = any(
        name not in EXACT_REQUEST_FIELDS and closest(name, ("deviceClassName",)) for name in subrequest.fields
    )
    return misspelt or (subject.version == "v1beta1" and "exactly" in subrequest.fields)


@CLAIMS.rule(
    "GA207",
    "A request must ask for a number of devices that it can get",
    default=Severity.DENY,
    remedy="write count: 1 or more, or allocationMode: All without a count",
    source="k8s.io/kubernetes pkg/apis/resource/validation validateDeviceAllocationMode",
)
def amounts(subject: Subject) -> Iterator[Problem]:
    """A request is for a number of devices, or for all that a node has; a number beside All contradicts it.

    A count of 0 is taken for one that is missing, and stands for 1.
    """
    for subrequest in subject.subrequests:
        mode, count = subrequest.fields.get("allocationMode"), subrequest.fields.get("count")
        if isinstance(mode, str) and mode and mode not in _MODES:
            guess = closest(mode, _MODES)
            remedy = f'write "{guess}"' if guess else 'write "ExactCount" or "All"'
            yield problem(subrequest.path / "allocationMode", unsupported(mode, _MODES), remedy)
        if not isinstance(count, int) or isinstance(count, bool):
            continue
        path = subrequest.path / "count"
        if mode == "All" and count != 0:
            text = invalid(count, "must not be specified when allocationMode is 'All'")
            yield problem(path, text, "remove count, or write allocationMode: ExactCount")
        elif count < 0:
            yield problem(path, invalid(count, "must be greater than zero"))
        elif count == 0 and mode in (None, "", "ExactCount"):
            text = "is 0, which the API server takes for a count that is missing: it stands for 1"
            yield problem(path, text, "write count: 1, or remove the request", severity=Severity.WARN)
