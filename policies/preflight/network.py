"""The network: what enforces NetworkPolicies, and firewalls between API servers and pods."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cluster_checks import Check, Status, forbidden_check
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup, mappings_at
from policies.phrases import format_list
from policies.view import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.kubernetes.objects import Object

__all__ = ["called_ports", "network_checks"]

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
    """Which plugin enforces NetworkPolicies, and whether a firewall may keep API servers away.

    Args:
        daemon_sets: All DaemonSets.
        nodes: All nodes.
        ports: The ports of the pods that API servers call.
        has_policy: True if the manifests have a NetworkPolicy.
        is_installed: True if webhooks of gpu-admission are installed, so that API servers reach it already.
    """
    if has_policy:
        yield _policy_check(daemon_sets)
    clouds = () if isinstance(nodes, Unknown) else {_cloud(each) for each in nodes} - {""}
    if clouds and ports and not is_installed:
        yield Check(
            name="ports",
            status=Status.UNKNOWN,
            what=f"it is unknown whether API servers reach ports {format_list([str(port) for port in ports])} of the pods",
            where=format_list(sorted(clouds)),
            why="preflight cannot test it, and the control plane of a managed cluster is often behind a firewall",
            remedy=f"let the control plane reach these ports{_OTHER_PORT if _FIREWALLED in ports else ''}",
        )


def _policy_check(daemon_sets: Sequence[Object] | Unknown) -> Check:
    if isinstance(daemon_sets, Unknown):
        what = "it is unknown whether a network plugin enforces NetworkPolicies"
        return forbidden_check("network", what, "list daemonsets.apps")
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


def called_ports(deployment: Object | None) -> list[int]:
    """The ports of a Deployment's pods that API servers call."""
    ports = mappings_at(deployment, ("spec", "template", "spec", "containers", 0, "ports"))
    return [each["containerPort"] for each in ports if each.get("name") in _CALLED and "containerPort" in each]
