"""The network: what enforces NetworkPolicies, and firewalls between API servers and pods."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

from policies.analyses.installation.cluster_checks import Check, Topic
from policies.kubernetes.names import format_list, format_ranges
from policies.kubernetes.objects import items_at, lookup, mappings_at, name_of
from policies.kubernetes.view import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policies.kubernetes.objects import Object


_ENGINES = ("antrea-agent", "azure-npm", "calico-node", "cilium", "kube-router", "ovnkube-node", "weave-net")
"""DaemonSets of network plugins that enforce NetworkPolicies, by their usual names."""
_CALLED = ("webhook", "explain")
"""The names of the ports that API servers call."""
_FIREWALLED = 8443
_OTHER_PORT = ", or use the component port-10250 in a private cluster of GKE"
_CLOUDS = {"gce://": "GKE", "aws://": "EKS", "azure://": "AKS"}


def network_checks(
    daemon_sets: Sequence[Object] | Unknown,
    nodes: Sequence[Object] | Unknown,
    ports: Sequence[int],
    *,
    has_policy: bool,
    is_installed: bool,
) -> Iterator[Check]:
    """Checks that a plugin enforces NetworkPolicies, and that no firewall keeps API servers away.

    Args:
        daemon_sets: All DaemonSets.
        nodes: All nodes.
        ports: The ports of the pods that API servers call.
        has_policy: True if the manifests have a NetworkPolicy.
        is_installed: True if webhooks of gpu-admission are installed, so that API servers reach it already.
    """
    if has_policy:
        yield _policy_check(daemon_sets)
    providers = () if isinstance(nodes, Unknown) else {str(lookup(each, ("spec", "providerID"))) for each in nodes}
    clouds = {name for prefix, name in _CLOUDS.items() if any(each.startswith(prefix) for each in providers)}
    if clouds and ports and not is_installed:
        yield Topic.PORTS.unknown(
            f"it is unknown whether API servers reach ports {format_list([str(port) for port in ports])} of the pods",
            where=format_list(sorted(clouds)),
            why="preflight cannot test it, and the control plane of a managed cluster is often behind a firewall",
            remedy=f"let the control plane reach these ports{_OTHER_PORT if _FIREWALLED in ports else ''}",
        )


def _policy_check(daemon_sets: Sequence[Object] | Unknown) -> Check:
    if isinstance(daemon_sets, Unknown):
        what = "it is unknown whether a network plugin enforces NetworkPolicies"
        return Topic.NETWORK.forbidden(what, "list daemonsets.apps")
    found = sorted({name_of(each) for each in daemon_sets} & {*_ENGINES})
    if found:
        return Topic.NETWORK.ok(f"NetworkPolicies are enforced by {format_list(found)}")
    return Topic.NETWORK.warning(
        "no network plugin is seen that enforces NetworkPolicies",
        why=f"there is no DaemonSet {format_list(_ENGINES, 9).replace(' and ', ' or ')}; without one, every pod reaches the ports "
        "of gpu-admission",
        remedy="check whether your network plugin enforces NetworkPolicies",
    )


def egress_checks(policies: Iterable[Object], slices: Sequence[Object] | Unknown) -> Iterator[Check]:
    """Checks that NetworkPolicies of the manifests let replicas call API servers.

    Args:
        policies: Those of the manifests.
        slices: The EndpointSlices in namespace `default`; those of the Service `kubernetes` have the ports of API servers.
    """
    limiting = [each for each in policies if "Egress" in items_at(each, ("spec", "policyTypes"))]
    if not limiting:
        return
    if isinstance(slices, Unknown):
        what = "it is unknown whether the NetworkPolicy lets replicas call API servers"
        yield Topic.PORTS.forbidden(what, "list endpointslices.discovery.k8s.io in namespace default")
        return
    called = {
        port["port"]
        for each in slices
        if lookup(each, ("metadata", "labels", "kubernetes.io/service-name")) == "kubernetes"
        for port in mappings_at(each, ("ports",))
        if isinstance(port.get("port"), int)
    }
    for policy in limiting:
        rules = mappings_at(policy, ("spec", "egress"))
        if any(not each.get("ports") for each in rules):
            continue
        open_ports = {port.get("port") for each in rules for port in mappings_at(each, ("ports",))}
        if closed := sorted(called - open_ports):
            ports = format_list([str(port) for port in closed])
            yield Topic.PORTS.warning(
                f"the NetworkPolicy lets no replica call API servers at port {ports}",
                where=f"NetworkPolicy {name_of(policy)}, spec.egress",
                why="if a network plugin enforces it, no replica becomes ready",
                remedy=f"add port {ports} to spec.egress; with the chart, to networkPolicy.egress.ports",
            )


def called_ports(deployment: Object | None) -> list[int]:
    """The ports of a Deployment's pods that API servers call."""
    ports = mappings_at(deployment, ("spec", "template", "spec", "containers", 0, "ports"))
    return [each["containerPort"] for each in ports if each.get("name") in _CALLED and "containerPort" in each]


_MOST_SKEW = timedelta(seconds=5)
"""More than the resolution of an HTTP date and a slow answer."""
_RENEWAL = timedelta(seconds=60)
"""A kubelet renews its Lease every 10 seconds, and is not ready after 40 without."""
_CERTIFICATES = timedelta(hours=1)
"""The time before its creation from which a serving certificate of gpu-admission is valid; certs/authority.py."""


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
        """The time by which the API server is ahead; zero if the reading cannot tell."""
        if self.server > self.after:
            return self.server - self.after
        if self.server + timedelta(seconds=1) < self.before:
            return self.server + timedelta(seconds=1) - self.before
        return timedelta()


def clock_checks(clock: Clock | None, leases: Sequence[Object] | Unknown, ready: frozenset[str]) -> Iterator[Check]:
    """Checks that the clocks of this machine, of the API server and of the nodes agree.

    Args:
        clock: A reading; None if the API server sent no Date, or refused.
        leases: The Leases of the nodes.
        ready: The names of the ready nodes, whose kubelets renew their Lease.
    """
    if clock is None:
        yield Topic.CLOCK.unknown(
            "the clock of the API server is unknown",
            why="its answer to /version has no Date, or you may not read it",
            remedy="bind the ClusterRole system:public-info-viewer to the user",
        )
        return
    is_good = True
    if abs(clock.skew) > _MOST_SKEW:
        is_good = False
        yield Topic.CLOCK.warning(
            f"the API server is {abs(clock.skew).total_seconds():,.0f} seconds "
            f"{'ahead of' if clock.skew > timedelta() else 'behind'} this machine",
            why="tokens and certificates that one side issues may be invalid for the other",
            remedy="synchronise both clocks, for example with NTP",
        )
    if isinstance(leases, Unknown):
        right = "list leases.coordination.k8s.io in namespace kube-node-lease"
        yield Topic.CLOCK.forbidden("the clocks of the nodes are unknown", right)
        return
    for skew, nodes in _clock_skews(leases, ready, clock.server).items():
        is_good = False
        yield Topic.CLOCK.warning(
            f"clocks of nodes are {skew} the API server: {format_ranges(nodes)}",
            where="spec.renewTime of their Leases in kube-node-lease",
            why="a replica there issues certificates with its own clock; they are accepted up to an hour ahead, not more",
            remedy="synchronise the clocks of these nodes, for example with NTP",
        )
    if is_good:
        yield Topic.CLOCK.ok("the clocks of this machine, the API server and the ready nodes agree")


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
