"""Karpenter's node pools: they grow for pods that ask for resources, and not for pods that ask by claims.

Since August 2025 Karpenter passes over pods with claims; support of DRA is alpha, off unless the administrator turns it on
where Karpenter is installed, and cannot be seen in the cluster.

Sources: kubernetes-sigs/karpenter pull request 2384, issues 3228 and 3231; karpenter.sh/docs/tasks/dra
(settings.enableDRA); karpenter-provider-gcp docs/settings.md (ignoreDRARequests, true by default).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.audit.report import AuditFinding
from policies.conversion.opt_in import Mode
from policies.decision import Severity
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.audit.report import Readiness
    from policies.kubernetes.objects import Object

__all__ = ["KARPENTER", "karpenter_findings"]

KARPENTER = "karpenter"
"""What is said of node pools that do not grow for converted pods."""

_SPEC = ("spec", "template", "spec")
_GPU_WORDS = ("nvidia", "gpu")
_NAMED = 3
_REMEDY = (
    "turn on Karpenter's support of DRA (settings.enableDRA on AWS, ignoreDRARequests: false on Google Cloud), "
    "or leave namespaces that need its GPU nodes unconverted"
)


def karpenter_findings(pools: Sequence[Object], readiness: Sequence[Readiness]) -> Iterator[AuditFinding]:
    """Node pools that make GPU nodes, or may; and whom it concerns that they do not for pods with claims."""
    converting = [each.namespace for each in readiness if each.mode is Mode.ENABLED]
    for pool in pools:
        if lookup(pool, ("spec", "replicas")) is not None:
            # A static pool has its nodes whatever pods ask for.
            continue
        names_gpus = _names_gpus(pool)
        whom = f"; namespaces that convert: {_listed(converting)}" if converting else "; no namespace converts yet"
        what = (
            "makes GPU nodes, and Karpenter" if names_gpus else "names no GPUs; where it may make GPU nodes, Karpenter"
        )
        text = f"{what} makes none for pods with claims while its support of DRA, which is alpha, is off{whom}"
        severity = Severity.WARN if converting and names_gpus else Severity.AUDIT
        path = FieldPath(_SPEC) / "requirements"
        yield AuditFinding(KARPENTER, severity, "NodePool", "", name_of(pool), path, text, _REMEDY)


def _names_gpus(pool: Object) -> bool:
    """Whether a pool speaks of GPUs: in requirements, taints, labels or limits."""
    keys = [
        *_keys(lookup(pool, (*_SPEC, "requirements"))),
        *_keys(lookup(pool, (*_SPEC, "taints"))),
        *_names(lookup(pool, ("spec", "template", "metadata", "labels"))),
        *_names(lookup(pool, ("spec", "limits"))),
    ]
    return any(word in key for key in keys for word in _GPU_WORDS)


def _keys(items: object) -> Iterator[str]:
    for item in items if isinstance(items, list) else ():
        key = lookup(item, ("key",))
        if isinstance(key, str):
            yield key


def _names(mapping: object) -> Iterator[str]:
    for key in mapping if isinstance(mapping, dict) else ():
        if isinstance(key, str):
            yield key


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{', '.join(names[:_NAMED])}{more}"
