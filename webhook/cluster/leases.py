"""Leases: their holder, their duration, and the next state to write.

The times in a lease are for people. No replica compares them with its own clock: each measures how long it has seen the
same version of the lease.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from policies.kubernetes.objects import lookup
from webhook.cluster.clockwork import micro_time
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from policies.kubernetes.objects import Object


LEASE = RESOURCES["Lease"]

REPLICA_LABELS = {"gpu-admission.io/lease": "replica"}
"""The labels of the Lease that each replica keeps for itself."""
REPLICA_QUERY = {"labelSelector": "gpu-admission.io/lease=replica"}
"""The query that lists or watches these Leases."""

_SOON = 1
"""The duration of a released lease in seconds; the API server accepts none below 1."""


def holder_of(lease: Object) -> str:
    """The holder of a lease; empty without one."""
    holder = lookup(lease, ("spec", "holderIdentity"))
    return holder if isinstance(holder, str) else ""


def seconds_of(lease: Object, default: int) -> int:
    """The duration of a lease."""
    seconds = lookup(lease, ("spec", "leaseDurationSeconds"))
    return seconds if type(seconds) is int and seconds > 0 else default


def version_of(lease: Object) -> tuple[object, object]:
    """Identifies a state of a lease, even if it was deleted and created again."""
    return lookup(lease, ("metadata", "uid")), lookup(lease, ("metadata", "resourceVersion"))


def new_lease(namespace: str, name: str, seconds: int, moment: datetime) -> Object:
    """A lease without a holder; for `seconds`, the holder of a deleted one may still lead."""
    spec = {
        "holderIdentity": "",
        "leaseDurationSeconds": seconds,
        "leaseTransitions": 0,
        "renewTime": micro_time(moment),
    }
    return {
        "apiVersion": LEASE.api_version,
        "kind": LEASE.kind,
        "metadata": {"name": name, "namespace": namespace},
        "spec": spec,
    }


def annotations_of(lease: Object) -> Mapping[str, str]:
    """The annotations of a lease."""
    return lookup(lease, ("metadata", "annotations")) or {}


def held_lease(
    lease: Object, identity: str, seconds: int, moment: datetime, annotations: Mapping[str, str] = MappingProxyType({})
) -> Object:
    """The lease taken or renewed by `identity`; its resourceVersion guards the write.

    `annotations` are added to those that it has.
    """
    before = lookup(lease, ("spec",)) or {}
    spec = {**before, "holderIdentity": identity, "leaseDurationSeconds": seconds, "renewTime": micro_time(moment)}
    if holder_of(lease) != identity:
        transitions = before.get("leaseTransitions")
        spec["acquireTime"] = micro_time(moment)
        spec["leaseTransitions"] = (transitions if type(transitions) is int else 0) + 1
    return {**_with_annotations(lease, annotations), "spec": spec}


def released_lease(lease: Object, moment: datetime, annotations: Mapping[str, str] = MappingProxyType({})) -> Object:
    """The lease without a holder, which others may take after a second; `annotations` are added, too."""
    spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": _SOON, "renewTime": micro_time(moment)}
    return {**_with_annotations(lease, annotations), "spec": spec}


def _with_annotations(lease: Object, annotations: Mapping[str, str]) -> Object:
    more = {"annotations": {**annotations_of(lease), **annotations}} if annotations else {}
    return {**lease, "metadata": {**lease["metadata"], **more}}
