"""Validates the configuration of GPU clusters before it is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.configuration import components, drivers, images  # noqa: F401 - these modules register their rules
from policies.configuration.change import COMPONENTS, Change, is_lenient
from policies.configuration.cluster_facts import Facts
from policies.configuration.cluster_policy import CLUSTER_POLICY, CLUSTER_POLICY_DELETION
from policies.configuration.config_maps import CONFIG_MAPS
from policies.configuration.config_maps.roles import DEPENDENTS, references, roles_of, users
from policies.configuration.node_labels import NODE
from policies.configuration.schema_checks import ANY_KIND, SCHEMA, SETTINGS
from policies.configuration.v1alpha1 import GPU_CLUSTER, NVIDIA_DRIVER
from policies.kubernetes.objects import name_of, namespace_of
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from policies.kubernetes.objects import FieldPath
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy

__all__ = ["is_configuration", "is_lenient", "uses", "validate"]


_NVIDIA = {"ClusterPolicy": CLUSTER_POLICY, "NVIDIADriver": NVIDIA_DRIVER, "GPUCluster": GPU_CLUSTER}


def is_configuration(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> bool:
    """True if a ConfigMap is recognised as GPU configuration."""
    change = Change.of(request, Facts(view, settings))
    return change is not None and bool(roles_of(change))


def uses(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[str, ...]:
    """The fields that put a ConfigMap into effect, a sentence for each; empty for other kinds."""
    change = Change.of(request, Facts(view, settings)) if (request.group, request.kind) == ("", "ConfigMap") else None
    if change is None or change.is_deleted:
        return ()
    return tuple(f'ConfigMap "{change.name}" is in effect: {user} names it' for user in users(change))


def validate(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[Finding]:
    """The findings for a change, by the rules of its kind; none for kinds that have no rules."""
    change = Change.of(request, Facts(view, settings))
    if change is None:
        return
    if not change.is_deleted:
        yield from ANY_KIND.run(change)
    match request.group, request.kind:
        case "nvidia.com", "ClusterPolicy" if change.is_deleted:
            yield from CLUSTER_POLICY_DELETION.run(change)
        case "nvidia.com", kind if kind in _NVIDIA and not change.is_deleted:
            found = [*SCHEMA.run(change), *COMPONENTS.run(change), *_NVIDIA[kind].run(change)]
            yield from found
            yield from named_config_maps(change, {each.path for each in found if each.severity is Severity.DENY})
        case "gpu-admission.io", "GPUAdmissionPolicy" if not change.is_deleted:
            yield from SETTINGS.run(change)
        case "", "ConfigMap":
            yield from DEPENDENTS.run(change)
            for role in () if change.is_deleted else sorted(roles_of(change)):
                yield from CONFIG_MAPS[role].run(change)
        case "", "Node":
            yield from NODE.run(change)


def named_config_maps(change: Change, refused: Container[FieldPath]) -> Iterator[Finding]:
    """The denials of the ConfigMaps that an object names, at the fields that name them.

    NVIDIA's guides create the ConfigMap first and name it afterwards: that is when the operator reads it. So a mistake in
    it refuses a change that newly names it, and is a warning if the object named it before. A ConfigMap that is itself
    under review is skipped, because it has these findings of its own.

    Args:
        change: The change of a ClusterPolicy or a GPUCluster.
        refused: The fields of this object that have a denial already.
    """
    before = {*references(change.old)}
    facts = change.facts.after(change.object)
    for reference, name in references(change.object):
        config_map = facts.operator_object("ConfigMap", name)
        if reference.role is None or reference.path in refused or not isinstance(config_map, dict):
            continue
        if facts.is_reviewed(config_map):
            continue
        namespace = namespace_of(config_map)
        content = Change(config_map, None, "CREATE", change.user, namespace, facts, "v1", "ConfigMap")
        severity = Severity.WARN if (reference, name) in before else Severity.DENY
        for finding in CONFIG_MAPS[reference.role].run(content):
            if finding.severity is Severity.DENY:
                where = f'the ConfigMap "{name_of(config_map)}" in {namespace} is invalid at {finding.path}'
                message = f"{where}: {finding.message}"
                yield replace(finding, path=reference.path, message=message, severity=severity, place=None)
