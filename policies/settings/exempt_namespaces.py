"""Exempt namespaces: those that conversion, access and quotas leave alone.

What runs a cluster and hands out its GPUs must be able to start while nothing can be checked, converted or counted.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from policies.settings.choices import DEFAULTS, DRA_DRIVER_NAMESPACES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.request import Concern
    from policies.settings.choices import GPUAdmissionPolicy

__all__ = [
    "NEVER_MATCHED",
    "excluded_names",
    "exempt_names",
    "exemption",
    "exemption_in_cluster",
    "in_default_order",
    "is_excluded",
]

_OF_CONVERSION = ("conversion", "preview", "conversion-check")
_WILD = re.compile(r"[*?\[]")

NEVER_MATCHED = ("kube-system", "gpu-admission")
"""Namespaces that no webhook of ours is called for: a cluster must be able to heal itself, and we to start, without us."""


def exemption(concern: Concern | None, namespace: str, settings: GPUAdmissionPolicy) -> str:
    """Why a concern leaves a namespace alone under these settings, as a clause; empty if it does not.

    Without a concern, why every webhook leaves it alone.
    """
    for names, why in _names(concern, settings):
        if namespace in names:
            return why
    patterns, why = _patterns(concern, settings)
    return why if any(fnmatchcase(namespace, pattern) for pattern in patterns) else ""


def exemption_in_cluster(concern: Concern | None, namespace: str, settings: GPUAdmissionPolicy) -> str:
    """Why a concern leaves a namespace alone in a cluster, as a clause; empty if it does not.

    The API server calls the installed webhooks for no namespace that is exempt by default, whatever the settings say.
    """
    why = exemption(concern, namespace, settings)
    if not why and exemption(concern, namespace, DEFAULTS):
        return "the installed webhook configurations leave it out"
    return why


def exempt_names(concern: Concern | None, settings: GPUAdmissionPolicy) -> frozenset[str]:
    """The names of namespaces that a concern leaves alone; without patterns such as `monitoring-*`."""
    named = (name for names, _ in _names(concern, settings) for name in names)
    return frozenset((*named, *(name for name in _patterns(concern, settings)[0] if not _WILD.search(name))))


def is_excluded(concerns: Sequence[Concern], namespace: str, settings: GPUAdmissionPolicy) -> bool:
    """True if a webhook excludes a namespace in a cluster.

    Args:
        concerns: The webhook excludes namespaces that are exempt from all of them; without any, those never matched.
        namespace: The name of the namespace.
        settings: The settings in use.
    """
    return all(exemption_in_cluster(concern, namespace, settings) for concern in concerns or (None,))


def excluded_names(concerns: Sequence[Concern], settings: GPUAdmissionPolicy) -> frozenset[str]:
    """The names of the namespaces that a namespaceSelector excludes; `concerns` as in `is_excluded`."""
    return frozenset.intersection(*(exempt_names(concern, settings) for concern in concerns or (None,)))


def in_default_order(names: frozenset[str]) -> list[str]:
    """Names of namespaces: those that are exempt by default in their order, then the others sorted."""
    default = (*NEVER_MATCHED, *DEFAULTS.configuration.operator_namespaces, *DRA_DRIVER_NAMESPACES)
    return [*(name for name in default if name in names), *sorted(names - {*default})]


def _names(concern: Concern | None, settings: GPUAdmissionPolicy) -> list[tuple[tuple[str, ...], str]]:
    named: list[tuple[tuple[str, ...], str]] = [(NEVER_MATCHED, "no webhook is called for it")]
    if concern in (*_OF_CONVERSION, "access", "quota"):
        named.append((settings.configuration.operator_namespaces, "configuration.operatorNamespaces names it"))
    if concern in _OF_CONVERSION:
        named.append((DRA_DRIVER_NAMESPACES, "NVIDIA's DRA driver runs there"))
    return named


def _patterns(concern: Concern | None, settings: GPUAdmissionPolicy) -> tuple[tuple[str, ...], str]:
    match concern:
        case "access":
            return settings.access.exempt_namespaces, "access.exemptNamespaces matches it"
        case "quota":
            return settings.quota.exempt_namespaces, "quota.exemptNamespaces matches it"
    return (), ""
