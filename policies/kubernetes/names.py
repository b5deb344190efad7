"""Names that Kubernetes accepts, and the keys of our own labels and annotations."""

from __future__ import annotations

import re

__all__ = [
    "DRA_LABEL",
    "IGNORE",
    "MANAGED",
    "PREFIX",
    "QUOTA_LABEL",
    "RECORD",
    "SCHEDULABLE",
    "STRATEGY_LABEL",
    "UNUSED_SINCE",
    "is_dns_label",
    "is_dns_subdomain",
    "is_label_key",
    "is_label_value",
    "plural",
    "resource_name",
]


_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(rf"{_DNS_LABEL.pattern}(\.{_DNS_LABEL.pattern})*")


def is_label_value(text: object) -> bool:
    """True if a node could carry this label value.

    Source: k8s.io/apimachinery/pkg/util/validation.IsValidLabelValue.
    """
    return isinstance(text, str) and len(text) <= 63 and _LABEL_VALUE.fullmatch(text) is not None


def is_label_key(text: object) -> bool:
    """True if this can be the key of a label: a name, and before it, if anything, a DNS name and a slash.

    Source: k8s.io/apimachinery/pkg/api/validate/content.IsLabelKey.
    """
    if not isinstance(text, str):
        return False
    prefix, slash, name = text.rpartition("/")
    return (
        name != ""
        and is_label_value(name)
        and (not slash or (len(prefix) <= 253 and _DNS_SUBDOMAIN.fullmatch(prefix) is not None))
    )


def is_dns_label(text: object) -> bool:
    """True if this can name a container, a pod claim or a request of a claim.

    Source: k8s.io/apimachinery/pkg/util/validation.IsDNS1123Label.
    """
    return isinstance(text, str) and len(text) <= 63 and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: object) -> bool:
    """True if this can name a DeviceClass, and most other objects.

    Source: k8s.io/apimachinery/pkg/util/validation.IsDNS1123Subdomain.
    """
    return isinstance(text, str) and len(text) <= 253 and _DNS_SUBDOMAIN.fullmatch(text) is not None


def plural(kind: str) -> str:
    """The English plural of a kind: `ClusterPolicies`, `DeviceClasses`."""
    if kind.endswith("y"):
        return f"{kind[:-1]}ies"
    return f"{kind}es" if kind.endswith("s") else f"{kind}s"


def resource_name(kind: str) -> str:
    """The name that the resource of a kind usually has: `clusterpolicies`, `deviceclasses`."""
    return plural(kind.lower())


PREFIX = "gpu-admission.io/"
"""The prefix of every label and annotation of gpu-admission."""

DRA_LABEL = "gpu-admission.io/dra"
"""The label that opts a namespace into conversion, and with the value `disabled` a pod out of it."""

STRATEGY_LABEL = "gpu-admission.io/dra-strategy"
"""The label of a namespace that chooses the conversion strategy."""

QUOTA_LABEL = "gpu-admission.io/quota"
"""The label of a namespace that makes its quota fail closed."""

MANAGED = "gpu-admission.io/managed"
"""The label on everything that gpu-admission made or changed."""

IGNORE = "gpu-admission.io/ignore"
"""The annotation that waives findings on its object."""

RECORD = "gpu-admission.io/converted"
"""The annotation that records what a converted pod requested."""

UNUSED_SINCE = "gpu-admission.io/unused-since"
"""The annotation with the time since when no pod uses a template."""

SCHEDULABLE = "gpu-admission.io/Schedulable"
"""The type of the condition of pods that wait for GPUs. It is only ever `False`, and is removed when that is no longer true."""
