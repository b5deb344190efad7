"""Validates one change of configuration: finds the checks for its kind and runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.change import Change
from policies.configuration.cluster_policy import CLUSTER_POLICY, CLUSTER_POLICY_DELETION
from policies.configuration.components import COMPONENTS
from policies.configuration.config_maps import CONFIG_MAPS
from policies.configuration.config_maps.references import REFERENCES
from policies.configuration.config_maps.roles import roles_of
from policies.configuration.facts import Facts
from policies.configuration.gpu_cluster import GPU_CLUSTER
from policies.configuration.kinds import ANY_KIND
from policies.configuration.nodes import NODE
from policies.configuration.nvidia_driver import NVIDIA_DRIVER
from policies.configuration.schema_checks import SCHEMA
from policies.configuration.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["validate"]

_NVIDIA = {"ClusterPolicy": CLUSTER_POLICY, "NVIDIADriver": NVIDIA_DRIVER, "GPUCluster": GPU_CLUSTER}


def validate(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """Everything that is wrong with a change, by the rules of its kind; nothing for kinds that are not ours."""
    change = Change.of(request, Facts(view, settings))
    if change is None:
        return
    if not change.deleted:
        yield from ANY_KIND.run(change)
    match request.group, request.kind:
        case "nvidia.com", "ClusterPolicy" if change.deleted:
            yield from CLUSTER_POLICY_DELETION.run(change)
        case "nvidia.com", kind if kind in _NVIDIA and not change.deleted:
            yield from SCHEMA.run(change)
            yield from COMPONENTS.run(change)
            yield from _NVIDIA[kind].run(change)
        case "gpu-admission.io", "GPUAdmissionPolicy" if not change.deleted:
            yield from SETTINGS.run(change)
        case "", "ConfigMap":
            yield from REFERENCES.run(change)
            for role in sorted(roles_of(change, by_content=not request.entry)):
                yield from CONFIG_MAPS[role].run(change)
        case "", "Node":
            yield from NODE.run(change)
