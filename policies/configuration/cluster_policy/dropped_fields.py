"""Dropped fields: what was written into a manifest and is no longer there when a webhook sees the object."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.change import SPEC
from policies.configuration.cluster_policy.checks import CLUSTER_POLICY
from policies.configuration.schemas.cluster_policy import CLUSTER_POLICY as SCHEMA
from policies.decision import Severity
from policies.kubernetes.paths import lookup
from policies.schema import find_problems

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

APPLIED = ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")


@CLUSTER_POLICY.rule(
    "GA109",
    "A field that was applied must not be dropped",
    default=Severity.DENY,
    remedy="remove it",
    source="kubernetes.io/docs/tasks/extend-kubernetes/custom-resources: fields that a CRD does not know are pruned",
    rows=("A-08",),
)
def nothing_dropped(change: Change) -> Iterator[Problem]:
    """The API server has dropped the field before any webhook was asked; only kubectl's note of what was applied has it.

    Whoever wrote it believes that it acts. A field that looks like a mistyped one is refused, any other is warned about:
    values of the Helm chart are the usual ones. What a later edit leaves in the note is not told again.
    """
    note = lookup(change.object, APPLIED)
    if change.deleted or not isinstance(note, str) or note == lookup(change.old, APPLIED):
        return
    try:
        applied = lookup(json.loads(note), ("spec",))
    except (ValueError, RecursionError):
        return
    for found in find_problems(SCHEMA, applied, SPEC) if isinstance(applied, dict) else ():
        parent: Any = lookup(change.object, found.path[:-1])
        if found.kind == "unknown" and not (isinstance(parent, dict) and found.path[-1] in parent):
            mistyped = found.remedy.startswith("write ")
            text = "was applied and silently dropped by the API server, because there is no such field"
            yield problem(found.path, text, found.remedy, severity=None if mistyped else Severity.WARN)
