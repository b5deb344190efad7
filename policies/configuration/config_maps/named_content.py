"""Named content: the mistakes in a ConfigMap that a ClusterPolicy or a GPUCluster puts into effect by naming it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from policies.configuration.change import Change
from policies.configuration.config_maps import CONFIG_MAPS
from policies.configuration.config_maps.references import references
from policies.decision import Severity
from policies.kubernetes.objects import name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Container, Iterator

    from policies.decision import Finding
    from policies.kubernetes.paths import FieldPath

__all__ = ["named_content"]


def named_content(change: Change, refused: Container[FieldPath]) -> Iterator[Finding]:
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
