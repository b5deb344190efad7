"""Validates one change of configuration: finds the checks for its kind and runs them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.change import Change
from policies.configuration.cluster_policy import CLUSTER_POLICY, CLUSTER_POLICY_DELETION
from policies.configuration.components import COMPONENTS
from policies.configuration.config_maps import CONFIG_MAPS
from policies.configuration.config_maps.dependents import DEPENDENTS
from policies.configuration.config_maps.named_content import named_content
from policies.configuration.config_maps.references import users
from policies.configuration.config_maps.roles import roles_of
from policies.configuration.facts import Facts
from policies.configuration.gpu_cluster import GPU_CLUSTER
from policies.configuration.kinds import ANY_KIND
from policies.configuration.nodes import NODE
from policies.configuration.nvidia_driver import NVIDIA_DRIVER
from policies.configuration.schema_checks import SCHEMA
from policies.configuration.settings import SETTINGS
from policies.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["uses", "validate"]

_NVIDIA = {"ClusterPolicy": CLUSTER_POLICY, "NVIDIADriver": NVIDIA_DRIVER, "GPUCluster": GPU_CLUSTER}


def uses(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[str, ...]:
    """The fields that put a written ConfigMap into effect, a sentence for each; nothing for objects of other kinds."""
    change = Change.of(request, Facts(view, settings)) if (request.group, request.kind) == ("", "ConfigMap") else None
    if change is None or change.deleted:
        return ()
    return tuple(f'ConfigMap "{change.name}" is in effect: {user} names it' for user in users(change))


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
            found = [*SCHEMA.run(change), *COMPONENTS.run(change), *_NVIDIA[kind].run(change)]
            yield from found
            yield from named_content(change, {each.path for each in found if each.severity is Severity.DENY})
        case "gpu-admission.io", "GPUAdmissionPolicy" if not change.deleted:
            yield from SETTINGS.run(change)
        case "", "ConfigMap":
            yield from DEPENDENTS.run(change)
            for role in sorted(roles_of(change)):
                yield from CONFIG_MAPS[role].run(change)
        case "", "Node":
            yield from NODE.run(change)
