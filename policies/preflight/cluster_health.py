"""What else decides whether an installation works: clocks, other APIs and the network."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from policies.cluster_checks import Check, Status
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup, mappings_at
from policies.phrases import format_list, format_ranges, shorten
from policies.view import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.kubernetes.objects import Object
    from policies.preflight.planned import Planned

__all__ = ["Clock", "api_checks", "bundle_checks", "clock_checks", "conversion_checks", "network_checks"]

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
        clock: A reading; None if the API server sent no Date.
        leases: The Leases of the nodes.
        ready: The names of the ready nodes, whose kubelets renew their Lease.
    """
    if clock is None:
        yield Check(
            name="clock",
            status=Status.UNKNOWN,
            what="the clock of the API server is unknown",
            why="its answers have no Date",
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
        yield Check(
            name="clock",
            status=Status.UNKNOWN,
            what="the clocks of the nodes are unknown",
            why="you may not list leases in namespace kube-node-lease",
            remedy="allow the user to list leases in namespace kube-node-lease",
        )
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


def api_checks(services: Sequence[Object] | Unknown) -> Iterator[Check]:
    """Aggregated APIs that are not available.

    Args:
        services: All APIServices.
    """
    if isinstance(services, Unknown):
        yield Check(
            name="apis",
            status=Status.UNKNOWN,
            what="it is unknown whether all aggregated APIs are available",
            why="you may not list apiservices.apiregistration.k8s.io",
            remedy="allow the user to list apiservices.apiregistration.k8s.io",
        )
        return
    broken = [(each, condition) for each in services if (condition := _unavailable(each)) is not None]
    for each, condition in broken:
        yield Check(
            name="apis",
            status=Status.WARNING,
            what=f"aggregated API {name_of(each)} is not available",
            where=f"APIService {name_of(each)}",
            why=f"{condition.get('reason')}: {shorten(str(condition.get('message')))}; discovery is incomplete, and namespaces "
            "cannot be deleted meanwhile",
            remedy="repair the service behind it, or delete the APIService if nothing uses it",
        )
    if not broken:
        yield Check(name="apis", status=Status.OK, what="every aggregated API is available")


def _unavailable(service: Object) -> Object | None:
    return next(
        (
            each
            for each in mappings_at(service, ("status", "conditions"))
            if each.get("type") == "Available" and each.get("status") == "False"
        ),
        None,
    )


def conversion_checks(broken: Sequence[tuple[str, str]] | Unknown) -> Iterator[Check]:
    """Custom resources that gpu-admission reads and whose conversion webhook fails.

    Args:
        broken: The names of CRDs, each with the error of a list of its objects.
    """
    if isinstance(broken, Unknown):
        yield Check(
            name="conversions",
            status=Status.UNKNOWN,
            what="it is unknown whether a conversion webhook fails",
            why="you may not list customresourcedefinitions",
            remedy="allow the user to list customresourcedefinitions.apiextensions.k8s.io",
        )
        return
    for name, error in broken:
        yield Check(
            name="conversions",
            status=Status.WARNING,
            what=f"objects of {name} cannot be read",
            where=f"CustomResourceDefinition {name}, spec.conversion",
            why=shorten(error),
            remedy="repair its conversion webhook; until then, rules treat these objects as unknown",
        )
    if not broken:
        yield Check(
            name="conversions",
            status=Status.OK,
            what="no conversion webhook fails for objects that gpu-admission reads",
        )


_ENGINES = ("antrea-agent", "azure-npm", "calico-node", "cilium", "kube-router", "ovnkube-node", "weave-net")
"""DaemonSets of network plugins that enforce NetworkPolicies, by their usual names."""
_CLOUDS = {"gce://": "GKE", "aws://": "EKS", "azure://": "AKS"}


def network_checks(
    daemon_sets: Sequence[Object] | Unknown, nodes: Sequence[Object] | Unknown, *, has_policy: bool, is_installed: bool
) -> Iterator[Check]:
    """What enforces NetworkPolicies, and whether API servers may be kept from the webhook's port.

    Args:
        daemon_sets: All DaemonSets.
        nodes: All nodes.
        has_policy: True if the manifests have a NetworkPolicy.
        is_installed: True if webhooks of gpu-admission are installed, so that API servers reach it already.
    """
    if has_policy:
        yield _policy_check(daemon_sets)
    clouds = () if isinstance(nodes, Unknown) else {_cloud(each) for each in nodes} - {""}
    if clouds and not is_installed:
        yield Check(
            name="ports",
            status=Status.UNKNOWN,
            what="it is unknown whether API servers reach ports 8443 and 8445 of the pods",
            where=format_list(sorted(clouds)),
            why="preflight cannot test it, and the control plane of a managed cluster is often behind a firewall",
            remedy="let the control plane reach both ports, or use the component port-10250 in a private cluster of GKE",
        )


def _policy_check(daemon_sets: Sequence[Object] | Unknown) -> Check:
    if isinstance(daemon_sets, Unknown):
        return Check(
            name="network",
            status=Status.UNKNOWN,
            what="it is unknown whether anything enforces NetworkPolicies",
            why="you may not list daemonsets.apps",
            remedy="allow the user to list daemonsets.apps",
        )
    found = sorted({name_of(each) for each in daemon_sets} & {*_ENGINES})
    if found:
        return Check(name="network", status=Status.OK, what=f"NetworkPolicies are enforced by {format_list(found)}")
    return Check(
        name="network",
        status=Status.WARNING,
        what="no network plugin is seen that enforces NetworkPolicies",
        why=f"there is no DaemonSet {format_list(_ENGINES, 9).replace(' and ', ' or ')}; without one, every pod reaches the ports "
        "of gpu-admission",
        remedy="check whether your network plugin enforces NetworkPolicies",
    )


def _cloud(node: Object) -> str:
    provider = str(lookup(node, ("spec", "providerID")) or "")
    return next((name for prefix, name in _CLOUDS.items() if provider.startswith(prefix)), "")


def bundle_checks(planned: Sequence[Planned]) -> Iterator[Check]:
    """Manifests that write a caBundle, and installed webhooks that have none."""
    written = [name for each in planned for name, bundle in _bundles(each.document) if bundle]
    missing = [name for each in planned for name, bundle in _bundles(each.stored) if not bundle]
    if written:
        yield Check(
            name="caBundle",
            status=Status.WARNING,
            what=f"the manifests write the caBundle of {format_list(written, 3)}",
            where="webhooks[].clientConfig.caBundle",
            why="gpu-admission or cert-manager rotates it, and the manifests would bring back an old one",
            remedy="leave it out of the manifests",
        )
    if missing:
        yield Check(
            name="caBundle",
            status=Status.WARNING,
            what=f"installed webhooks have no caBundle: {format_list(missing, 3)}",
            where="webhooks[].clientConfig.caBundle",
            why="their calls fail, unless the serving certificate is of a public authority",
            remedy="look at `/readyz` of a replica: the leader writes it within seconds if it may",
        )


def _bundles(document: object) -> list[tuple[str, bool]]:
    """The webhooks of a configuration, each with whether it has a caBundle."""
    webhooks = mappings_at(document, ("webhooks",))
    return [(str(each.get("name")), bool(lookup(each, ("clientConfig", "caBundle")))) for each in webhooks]
