"""The clocks of this machine, of the API server and of the nodes."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from policies.cluster_checks import Check, Status, forbidden_check
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup
from policies.phrases import format_ranges
from policies.view import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.kubernetes.objects import Object

__all__ = ["Clock", "clock_checks"]

_MOST_SKEW = timedelta(seconds=5)
"""More than the resolution of an HTTP date and a slow answer."""
_RENEWAL = timedelta(seconds=60)
"""A kubelet renews its Lease every 10 seconds, and is not ready after 40 without."""
_CERTIFICATES = timedelta(hours=1)
"""How long before its creation a serving certificate of gpu-admission becomes valid; certs/authority.py."""


class Clock(NamedTuple):
    """One reading of the clock of the API server."""

    server: datetime
    """The Date header of an answer, in whole seconds."""
    before: datetime
    """The local time before the request."""
    after: datetime
    """The local time after the answer."""

    @property
    def skew(self) -> timedelta:
        """How far the API server is ahead; zero if the reading cannot tell."""
        if self.server > self.after:
            return self.server - self.after
        if self.server + timedelta(seconds=1) < self.before:
            return self.server + timedelta(seconds=1) - self.before
        return timedelta()


def clock_checks(clock: Clock | None, leases: Sequence[Object] | Unknown, ready: frozenset[str]) -> Iterator[Check]:
    """Whether the clocks of this machine, of the API server and of the nodes agree.

    Args:
        clock: A reading; None if the API server sent no Date, or refused.
        leases: The Leases of the nodes.
        ready: The names of the ready nodes, whose kubelets renew their Lease.
    """
    if clock is None:
        yield Check(
            name="clock",
            status=Status.UNKNOWN,
            what="the clock of the API server is unknown",
            why="its answer to /version has no Date, or you may not read it",
            remedy="bind the ClusterRole system:public-info-viewer to the user",
        )
        return
    is_good = True
    if abs(clock.skew) > _MOST_SKEW:
        is_good = False
        yield Check(
            name="clock",
            status=Status.WARNING,
            what=f"the API server is {_seconds(clock.skew)} this machine",
            why="tokens and certificates that one side issues may be invalid for the other",
            remedy="synchronise both clocks, for example with NTP",
        )
    if isinstance(leases, Unknown):
        right = "list leases.coordination.k8s.io in namespace kube-node-lease"
        yield forbidden_check("clock", "the clocks of the nodes are unknown", right)
        return
    for skew, nodes in _clock_skews(leases, ready, clock.server).items():
        is_good = False
        yield Check(
            name="clock",
            status=Status.WARNING,
            what=f"clocks of nodes are {skew} the API server: {format_ranges(nodes)}",
            where="spec.renewTime of their Leases in kube-node-lease",
            why="a replica there issues certificates with its own clock; they are accepted up to an hour ahead, not more",
            remedy="synchronise the clocks of these nodes, for example with NTP",
        )
    if is_good:
        yield Check(
            name="clock", status=Status.OK, what="the clocks of this machine, the API server and the ready nodes agree"
        )


def _seconds(skew: timedelta) -> str:
    return f"{abs(skew).total_seconds():,.0f} seconds {'ahead of' if skew > timedelta() else 'behind'}"


def _clock_skews(leases: Iterable[Object], ready: frozenset[str], now: datetime) -> dict[str, list[str]]:
    """The ready nodes whose Lease was renewed in the future, or not for a minute, by how far."""
    found: dict[str, list[str]] = {}
    for lease in leases:
        text = lookup(lease, ("spec", "renewTime"))
        if name_of(lease) not in ready or not isinstance(text, str):
            continue
        try:
            difference = datetime.fromisoformat(text) - now
        except (ValueError, TypeError):
            continue
        if difference > _MOST_SKEW or difference < -_RENEWAL:
            minutes = abs(difference).total_seconds() / 60
            amount = f"{minutes:,.0f} minutes" if minutes >= 2 else f"{abs(difference).total_seconds():.0f} seconds"
            found.setdefault(f"{amount} {'ahead of' if difference > timedelta() else 'behind'}", []).append(
                name_of(lease)
            )
    return found
