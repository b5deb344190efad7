"""Leases: who holds one, for how long, and how the next state of one is written.

A lease's times are for people to read. Nobody compares them with a clock of their own: how long a lease has stood is
measured by whoever looks, from the moment at which they first saw the version that is still there.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

from policies.kubernetes.paths import lookup
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from datetime import datetime

    from policies.kubernetes.objects import Object

__all__ = ["LEASE", "held_by", "holder_of", "micro_time", "released", "seconds_of", "unheld", "version_of"]

LEASE = RESOURCES["Lease"]

_SOON = 1
"""Seconds that a lease stands that was given back; the API server takes none below 1."""


def micro_time(moment: datetime) -> str:
    """A moment as a MicroTime, in UTC whatever its zone is.

    Source: k8s.io/apimachinery pkg/apis/meta/v1/micro_time.go.
    """
    return f"{moment.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def holder_of(lease: Object) -> str:
    """Who holds a lease; empty for nobody."""
    holder = lookup(lease, ("spec", "holderIdentity"))
    return holder if isinstance(holder, str) else ""


def seconds_of(lease: Object, default: int) -> int:
    """How long a version of a lease stands for its holder."""
    seconds = lookup(lease, ("spec", "leaseDurationSeconds"))
    return seconds if type(seconds) is int and seconds > 0 else default


def version_of(lease: Object) -> tuple[object, object]:
    """What tells two states of a lease apart, even when it was deleted and made again."""
    return lookup(lease, ("metadata", "uid")), lookup(lease, ("metadata", "resourceVersion"))


def unheld(namespace: str, name: str, seconds: int, moment: datetime) -> Object:
    """A new lease that nobody may hold before it has stood for `seconds`: who held one that is gone may lead until then."""
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


def held_by(lease: Object, identity: str, seconds: int, moment: datetime) -> Object:
    """The lease taken, or held on to, by `identity`; what else it says stays, and its resourceVersion guards the write."""
    before = lookup(lease, ("spec",)) or {}
    spec = {
        **before,
        "holderIdentity": identity,
        "leaseDurationSeconds": seconds,
        "renewTime": micro_time(moment),
    }
    if holder_of(lease) != identity:
        transitions = before.get("leaseTransitions")
        spec["acquireTime"] = micro_time(moment)
        spec["leaseTransitions"] = (transitions if type(transitions) is int else 0) + 1
    return {**lease, "spec": spec}


def released(lease: Object, moment: datetime) -> Object:
    """The lease given back: free as soon as others have seen it for a second."""
    spec = {**lease["spec"], "holderIdentity": "", "leaseDurationSeconds": _SOON, "renewTime": micro_time(moment)}
    return {**lease, "spec": spec}
