"""Versions: which of them exist, and which a cluster serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claim_schemas import VERSIONS, schema_of
from policies.dra.claims.subject import CLAIMS
from policies.kubernetes.paths import FieldPath
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
)
def served_version(subject: Subject) -> Iterator[Problem]:
    """Dynamic resource allocation changed its API with every release until Kubernetes 1.34, and guides of all ages are around.

    The API server knows v1 since 1.34. The beta versions are served only where the administrator has turned them on,
    and leave with 1.38 and 1.39; what is asked of a version that is not served ends in "no matches for kind".
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
        advice = "write apiVersion: resource.k8s.io/v1, and what is asked for under exactly" if flat else None
        yield problem(_PATH, text, advice, severity=Severity.WARN)
