"""DeviceClasses: the extended resources that they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.field_errors import invalid
from policies.dra.claims.subject import CLAIMS
from policies.kubernetes.names import is_label_key
from policies.kubernetes.paths import FieldPath, lookup
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject

_PATH = FieldPath(["spec", "extendedResourceName"])
_SINCE = (1, 34)


@CLAIMS.rule(
    "GA214",
    "The extended resource of a DeviceClass must be one that pods can request",
    default=Severity.DENY,
    remedy="write a name such as nvidia.com/gpu",
    source="k8s.io/apimachinery pkg/api/validate ExtendedResourceName",
)
def extended_resource_names(subject: Subject) -> Iterator[Problem]:
    """Pods that ask for the extended resource get devices of the class, so the name is one that a pod can ask for.

    It has a domain, which is not Kubernetes' own, and with "requests." before it it can be the key of a quota. Kubernetes
    has the field since 1.34, and by default since 1.36.
    """
    name = lookup(subject.object, _PATH)
    if subject.kind != "DeviceClass" or not isinstance(name, str):
        return
    if error := _error(name):
        yield problem(_PATH, invalid(name, f"must be a valid extended resource name: {error}"))
    running = subject.facts.view.server_version()
    # What the API server sends it has not dropped.
    if running is UNKNOWN or subject.served:
        return
    release = ".".join(map(str, running))
    if running < _SINCE:
        text = f"unknown field in Kubernetes {release}; it came with {'.'.join(map(str, _SINCE))}"
        yield problem(_PATH, text, "remove it, or upgrade the cluster")
    elif not subject.facts.offers("DRAExtendedResource"):
        text = f"is dropped by Kubernetes {release} unless the feature gate DRAExtendedResource is on"
        yield problem(_PATH, text, "turn the gate on, or upgrade the cluster to 1.36", severity=Severity.WARN)


def _error(name: str) -> str:
    if "/" not in name:
        return "a name must be a domain-prefixed path, such as 'example.com/my-prop'"
    if "kubernetes.io/" in name:
        return 'must not have "kubernetes.io/" domain'
    if name.startswith("requests."):
        return 'must not have "requests." prefix'
    if not is_label_key(f"requests.{name}"):
        return 'must be a label key with "requests." before it, as in a quota'
    return ""
