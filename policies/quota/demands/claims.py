"""Claims: the devices that a ResourceClaim requests, and those that it holds once it is allocated."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from policies.devices.device_sharing import consumed_capacity, held_parts
from policies.devices.deviceclasses import class_remedy
from policies.devices.effort import Effort
from policies.devices.published_devices import published_devices
from policies.devices.resource_claims import MOST_DEVICES, MOST_ENTRIES, Claim
from policies.fleet.known_classes import GPU_TYPES
from policies.kubernetes.names import shown
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import DRIVER
from policies.quota.demands.classes import NecessaryConditions, classes
from policies.quota.demands.device_kinds import published_kind, quota_device, unpublished_kinds
from policies.rules.charges import DeviceDemand, DeviceKind
from policies.rules.checks import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.devices.published_devices import DeviceGroup
    from policies.devices.resource_claims import Subrequest
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.quota.demands.classes import Classes
    from policies.rules.settings.choices import Quotas


_Kinds = Sequence[tuple[DeviceKind, "DeviceGroup"]]


class ClaimDemands(NamedTuple):
    """The devices that a claim requests."""

    demands: tuple[DeviceDemand, ...]
    """One for each request that could get a GPU."""
    problems: tuple[Problem, ...] = ()
    """The DeviceClasses that it names and that do not exist, so that more is charged than may be needed."""


def demands_of_claim(
    claim: Object, view: ClusterView, settings: Quotas, priority_class: str | None = None
) -> ClaimDemands:
    """The devices that a ResourceClaim requests, whether or not it is allocated.

    Args:
        claim: in any version of resource.k8s.io.
        view: the cluster, with classes and slices.
        settings: how quotas count.
        priority_class: of the pod that it was made for; None if it was made for no pod.
    """
    return _ClaimRequests(Claim(claim), view, settings, priority_class).all


def demands_of_template(
    template: Object, view: ClusterView, settings: Quotas, priority_class: str | None, effort: Effort | None = None
) -> ClaimDemands:
    """The devices that each claim from a ResourceClaimTemplate requests.

    Args:
        template: in any version of resource.k8s.io.
        view: the cluster, with classes and slices.
        settings: how quotas count.
        priority_class: of the pod that the claims are for; None if several pods share them.
        effort: the work allowed for selectors, shared with the other templates of the pod.
    """
    claim = Claim(template, "ResourceClaimTemplate")
    return _ClaimRequests(claim, view, settings, priority_class, effort or Effort()).all


def holdings_of_claim(
    claim: Object, view: ClusterView, settings: Quotas, priority_class: str | None = None
) -> tuple[DeviceDemand, ...]:
    """The allocated devices of a ResourceClaim, or its requests while it is not allocated.

    A device that is no longer in any slice counts as the largest one that its request allows.
    """
    claimed = _ClaimRequests(Claim(claim), view, settings, priority_class)
    if claimed.claim.allocation is None:
        return claimed.all.demands
    known = view.derive(published_devices)
    held: Counter[DeviceKind] = Counter()
    lost: list[DeviceDemand] = []
    for result in _counted_devices(claimed.claim, settings):
        found = None if known is UNKNOWN else known.find(DRIVER, str(result.get("pool")), str(result.get("device")))
        if found is None:
            lost.append(claimed.one_of(str(result.get("request"))))
        else:
            held[quota_device(found).kind_taken(held_parts(found, consumed_capacity(result)), settings)] += 1
    exact = (DeviceDemand(count, frozenset({kind}), priority_class=priority_class) for kind, count in held.items())
    return (*exact, *lost)


def _counted_devices(claim: Claim, settings: Quotas) -> Iterator[Object]:
    """The allocated GPUs of a claim, without those that do not count."""
    for device in claim.allocated_devices:
        is_free = device.get("adminAccess") is True and settings.admin_access != "charge"
        if device.get("driver") == DRIVER and not is_free:
            yield device


@dataclass(frozen=True)
class _ClaimRequests:
    """The requests of a claim or a template, and the devices that match them."""

    claim: Claim
    view: ClusterView
    settings: Quotas
    priority_class: str | None
    effort: Effort = field(default_factory=Effort)
    """The work allowed for selectors; a request whose selectors exceed it counts as if it had none."""

    @cached_property
    def classes(self) -> Classes:
        """The DeviceClasses of the cluster."""
        return self.view.derive(classes)

    @property
    def all(self) -> ClaimDemands:
        """The devices of all requests; one alternative of a prioritized list is granted.

        Requests beyond those that a claim can have do not count: Kubernetes stores no such claim.
        """
        demands: list[DeviceDemand] = []
        requests = [request.subrequests[:MOST_ENTRIES] for request in self.claim.requests[:MOST_ENTRIES]]
        for subrequests in requests:
            choices = [choice for subrequest in subrequests for choice in self._choices(subrequest)]
            if choices:
                demands.append(replace(choices[0], alternatives=tuple(choices[1:])))
        problems = (
            each for subrequests in requests for subrequest in subrequests for each in self._problems(subrequest)
        )
        return ClaimDemands(tuple(demands), tuple(problems))

    def one_of(self, name: str) -> DeviceDemand:
        """One device of a request by its name in results: `gpu`, or `gpu/large` for an alternative."""
        named = [
            subrequest
            for request in self.claim.requests
            for subrequest in request.subrequests
            if subrequest.full_name == name
        ]
        choices = [replace(choice, count=1) for subrequest in named for choice in self._choices(subrequest)]
        if not choices:
            return DeviceDemand(
                1,
                frozenset(),
                is_open=True,
                priority_class=self.priority_class,
                unseen=NecessaryConditions(GPU_TYPES).unseen(self.view),
            )
        return replace(choices[0], alternatives=tuple(choices[1:]))

    def _choices(self, subrequest: Subrequest) -> list[DeviceDemand]:
        """The ways to satisfy a request or an alternative; empty if it cannot get a GPU."""
        if subrequest.has_admin_access and self.settings.admin_access == "free":
            return []
        name, texts = subrequest.device_class, self._selectors(subrequest)
        need = self.classes.necessary_conditions(name, texts)
        if not need.types:
            return []
        kinds = [
            (kind, group)
            for group in self.classes.devices(name, texts, self.effort)
            if (kind := published_kind(group.first, subrequest.capacity, self.settings)) is not None
        ]
        shown_now = frozenset(kind for kind, _ in kinds)
        missing, unseen = (
            unpublished_kinds(each, self.view, subrequest.capacity, self.settings, is_shareable=need.is_shareable)
            for each in (need.missing_kinds(self.view, shown_now), need.unseen(self.view))
        )
        beyond = DeviceDemand(0, missing, need.products is None, self.priority_class, unseen)
        if subrequest.allocation_mode == "ExactCount":
            return [replace(beyond, count=subrequest.count, kinds=shown_now | missing)]
        return self._every(kinds, beyond)

    def _every(self, kinds: _Kinds, beyond: DeviceDemand) -> list[DeviceDemand]:
        """All devices of one node, as one choice for each node.

        Unknown nodes are assumed to be no larger than known ones.

        Args:
            kinds: The published devices that match.
            beyond: Devices that are not published, and that could match.
        """
        if not self.effort.compare(sum(len(group.by_node) for _, group in kinds)):
            every = beyond.kinds.union(kind for kind, _ in kinds)
            return [replace(beyond, count=MOST_DEVICES, kinds=every)]
        everywhere = sum(group.by_node[""] for _, group in kinds)
        reachable = frozenset(kind for kind, group in kinds if "" in group.by_node)
        counts: Counter[str] = Counter()
        kinds_of: defaultdict[str, set[DeviceKind]] = defaultdict(set)
        for kind, group in kinds:
            for node, count in group.by_node.items():
                counts[node] += count if node else 0
                kinds_of[node].add(kind)
        most: Counter[frozenset[DeviceKind]] = Counter()
        for node, on_node in kinds_of.items():
            together = reachable | on_node
            most[together] = max(most[together], min(counts[node] + everywhere, MOST_DEVICES))
        demands = [
            DeviceDemand(count, together, priority_class=self.priority_class) for together, count in most.items()
        ]
        if beyond.is_open or beyond.kinds:
            demands.append(replace(beyond, count=max(most.values(), default=MOST_DEVICES)))
        return demands

    def _selectors(self, subrequest: Subrequest) -> tuple[str, ...]:
        """The selectors of a request; empty if the allowed work is used up, so that every device counts."""
        place = FieldPath((self.claim.name, *subrequest.path))
        return subrequest.expressions if self.effort.admit_own(place, subrequest.expressions) else ()

    def _problems(self, subrequest: Subrequest) -> Iterator[Problem]:
        name = subrequest.device_class
        if not name or not self.classes.is_missing(name):
            return
        yield Problem(
            subrequest.path / "deviceClassName",
            f"there is no DeviceClass {shown(name)}, so its GPUs are unknown; the most that they can be is charged",
            class_remedy(name, self.classes),
        )
