"""The oracle of new quotas: what must be true of those that are created while pods stream in.

A pod that is requested after its quota says that it is enforced is charged before it is stored, and fits into the quota;
everything that replicas missed was counted before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from policies.quota.ledger.open_charges import ALLOWANCE
from policies.quota.ledger.status import charge_items
from tests.storm.harness.oracle import Truth, compared, condition, of_pod
from tests.storm.harness.orders import BEGUN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from tests.storm.harness.history import Event

__all__ = ["Report", "judge"]

_REPLICA = ("gpu-admission.io/lease", "replica")
_SEEN = "gpu-admission.io/quotas-seen"
_TRUSTED = 20 * 10**9
"""Nanoseconds after which a replica that cannot renew its Lease trusts its cache no longer."""
_LISTS = {"Pod": "pods", "ResourceClaim": "claims"}


@dataclass
class Report:
    """What became of new quotas, and of objects with GPUs in their namespaces."""

    counts: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    """What must not be."""


class _NewQuota:
    """One GPUQuota, from its creation to its end."""

    def __init__(self, event: Event) -> None:
        self.uid = event.uid
        self.created = event.version
        self.document = event.object
        self.has_allowance = False
        """Whether a replica may admit objects whose charges it writes later."""
        self.charged: set[str] = set()
        """The UIDs of everything that was ever charged."""
        self.missed: dict[str, Event] = {}
        """By UID, the objects that were stored without a charge."""
        self.enforced: int | None = None
        """When the storm knew that it is enforced; None before."""
        self.says_not_seen = False

    @property
    def counted(self) -> dict[str, int]:
        """By kind, the version of the list by which the quota was counted."""
        versions = (self.document.get("status") or {}).get("counted") or {}
        return {kind: int(versions.get(name, 0)) for kind, name in _LISTS.items()}


class _Judge:
    def __init__(self, namespaces: Collection[str], gaps: Sequence[tuple[int, int]]) -> None:
        self._namespaces = namespaces
        self._gaps = gaps
        self._truth = Truth()
        self._quotas: dict[str, _NewQuota] = {}
        self._known: set[str] = set()
        """The UIDs of everything that was ever stored."""
        self._seen: defaultdict[str, list[tuple[int, Event]]] = defaultdict(list)
        """By Lease, the versions up to which a replica has seen GPUQuotas, and the events that say so."""
        self._excused: set[str] = set()
        """The UIDs of objects that are left out."""
        self.report = Report()

    def take(self, event: Event) -> None:
        namespace = event.object["metadata"]["namespace"]
        if event.kind == "Lease":
            self._take_lease(event)
        elif namespace in self._namespaces:
            if event.kind == "GPUQuota":
                self._take_quota(namespace, event)
            else:
                self._take_object(namespace, event)
            self._compare(namespace, event)

    def _take_lease(self, event: Event) -> None:
        metadata = event.object["metadata"]
        seen = (metadata.get("annotations") or {}).get(_SEEN)
        if _REPLICA in (metadata.get("labels") or {}).items() and seen and not event.is_gone:
            self._seen[metadata["name"]].append((int(seen), event))

    def _take_quota(self, namespace: str, event: Event) -> None:
        found = self._quotas.get(namespace)
        if event.is_gone:
            # After a gap, the end of a quota may be known later than the next one.
            if found is not None and found.uid == event.uid:
                del self._quotas[namespace]
            return
        if found is None or found.uid != event.uid:
            found = self._quotas[namespace] = _NewQuota(event)
            self.report.counts["created"] += 1
        found.document = event.object
        items = charge_items(event.object.get("status"))
        found.charged |= {charge["uid"] for charge in items}
        found.has_allowance = any(charge["kind"] == ALLOWANCE for charge in items)
        said = condition(event.object, "Enforced")
        if said.get("status") == "Unknown" and said.get("reason") == "NotSeen" and not found.says_not_seen:
            found.says_not_seen = True
            self.report.counts["said that not all have seen them"] += 1
        if said.get("status") == "True" and found.enforced is None:
            found.enforced = event.known
            self._begin_to_hold(namespace, found, event)

    def _begin_to_hold(self, namespace: str, found: _NewQuota, event: Event) -> None:
        """Check that all that was stored before the last replica had seen the quota is counted."""
        self.report.counts["enforced"] += 1
        all_have_seen = self._when_seen(found.created, event.version)
        for kind, version in found.counted.items():
            if version < all_have_seen:
                self.report.broken.append(
                    f"{namespace}: enforced at {event.version}, when the {kind}s of {version} were counted; "
                    f"the last replica saw it at {all_have_seen}"
                )
        for missed in found.missed.values():
            if missed.version > found.counted[missed.kind]:
                self._excuse(missed)

    def _when_seen(self, created: int, enforced: int) -> int:
        """When the last of the replicas said that it had seen the quota for which the leader had to wait.

        A replica that is new, or was silent, compares its cache with a list before it trusts it.
        """
        versions = [0]
        for said in self._seen.values():
            # A call that was on its way while the replica was silent may arrive before the next one.
            returned = -_TRUSTED
            for (before, last), (seen, event) in pairwise(said):
                if event.known - last.known >= _TRUSTED:
                    returned = event.known
                is_waited_for = event.known - returned >= _TRUSTED and event.version < enforced
                if before < created <= seen and is_waited_for:
                    versions.append(event.version)
        return max(versions)

    def _take_object(self, namespace: str, event: Event) -> None:
        if event.uid not in self._excused:
            self._truth.change(event)
        if event.is_gone or event.uid in self._known:
            return
        self._known.add(event.uid)
        found = self._quotas.get(namespace)
        begun = (event.object["metadata"].get("annotations") or {}).get(BEGUN)
        if begun is None or not _gets_gpus(event):
            return
        if self._is_in_gap(event):
            # Its charge, and what the quota said then, may be unknown.
            self._leave_out(event)
        elif found is None:
            self.report.counts["objects stored without a quota"] += 1
        elif event.uid in found.charged or found.has_allowance:
            # With an allowance, it may be charged a moment later; that the ledger knows of enough is checked at each change.
            self.report.counts["objects charged" if event.uid in found.charged else "objects covered"] += 1
            if found.enforced is not None and int(begun) > found.enforced:
                self._check_limits(namespace, found, event)
        elif found.enforced is None:
            self.report.counts["objects missed"] += 1
            found.missed[event.uid] = event
        elif int(begun) > found.enforced:
            name = event.object["metadata"]["name"]
            self.report.broken.append(
                f"{namespace}: {event.kind} {name}, stored at {event.version}, has no charge; its request began "
                f"{(int(begun) - found.enforced) / 1e9:.3f} s after the quota was known to be enforced"
            )
        else:
            self._excuse(event)

    def _check_limits(self, namespace: str, found: _NewQuota, event: Event) -> None:
        self.report.counts["objects admitted by an enforced quota"] += 1
        for each in compared(event.version, found.document, self._truth.amounts(namespace)):
            if each.truth > each.hard:
                self.report.broken.append(f"admitted {each}")

    def _compare(self, namespace: str, event: Event) -> None:
        """Check that the ledger of an enforced quota knows of everything."""
        found = self._quotas.get(namespace)
        if found is None or found.enforced is None or self._is_in_gap(event):
            return
        for each in compared(event.version, found.document, self._truth.amounts(namespace)):
            if each.ledger is None or each.truth > each.ledger:
                self.report.broken.append(f"unknown to the ledger {each}")

    def _excuse(self, event: Event) -> None:
        """Leave out an object whose review ended before its replica saw the quota, and that was stored after the count."""
        self.report.counts["objects stored late"] += 1
        self._leave_out(event)

    def _leave_out(self, event: Event) -> None:
        self._excused.add(event.uid)
        self._truth.change(replace(event, is_gone=True))

    def _is_in_gap(self, event: Event) -> bool:
        return any(since < event.version <= until for since, until in self._gaps)


def _gets_gpus(event: Event) -> bool:
    if event.kind == "ResourceClaim":
        return True
    claims = event.object["spec"].get("resourceClaims") or ()
    return bool(+of_pod(event.object)) or any("resourceClaimTemplateName" in claim for claim in claims)


def judge(events: Iterable[Event], namespaces: Collection[str], gaps: Sequence[tuple[int, int]] = ()) -> Report:
    """Go through a history.

    Args:
        events: In the order in which they were stored, with the Leases of replicas.
        namespaces: Those whose quotas come and go.
        gaps: After which version and up to which not every change is known.
    """
    judge = _Judge(namespaces, gaps)
    for event in events:
        judge.take(event)
    return judge.report
