"""Sizes: how large a pod may be, so that its conversion is decided in time.

Everything that a decision does takes as long as the pod is large, and other pods wait meanwhile. The API server lets
megabytes pass; what pods are in earnest is far below these limits.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from policies.conversion.amounts import gpu_resources, limit_path
from policies.decision import Severity
from policies.kubernetes.nodes import MOST_EXPRESSIONS, MOST_VALUES, REQUIRED, SelectionSize
from policies.kubernetes.paths import FieldPath
from policies.kubernetes.pods import SPEC
from policies.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.decision import Finding
    from policies.kubernetes.pods import Pod

__all__ = ["size_problems"]

MOST_CONTAINERS = 1_000
MOST_RESOURCES = 200
"""GPU resources over all containers, asked for zero times or more."""

_SELECTOR = SPEC / "nodeSelector"
_TERMS = FieldPath([*SPEC, *REQUIRED, "nodeSelectorTerms"])
_OWN_LABEL = "select the nodes by one label of your own"


TOO_LARGE = rule(
    "GA326",
    "A pod must be small enough to be reviewed in time",
    default=Severity.DENY,
    why="""
    The API server waits ten seconds for a decision, and other pods wait meanwhile. A pod of thousands of containers
    or conditions, which nobody needs and anybody can send, would hold up all of them. At most 1,000 containers, 200 GPU
    resources in them, and 1,000 labels or expressions that select nodes, with 10,000 values, are read.""",
    remedy="spread the work over several pods, and select nodes by one label of your own",
    source="docs/conversion.md",
)


def size_problems(pod: Pod) -> Iterator[Finding]:
    """What there is too much of in a pod; none where its conversion can be decided in time."""
    containers = len(pod.all_containers)
    if containers > MOST_CONTAINERS:
        more = "initContainers" if len(pod.init_containers) > len(pod.containers) else "containers"
        text = f"the pod has {containers} containers, and {MOST_CONTAINERS} can be judged in time"
        yield TOO_LARGE.finding(SPEC / more, text, "spread the work over several pods")
    yield from _selector_problems(pod)
    named = ((container, resource) for container in pod.all_containers for resource in gpu_resources(container))
    for container, resource in islice(named, MOST_RESOURCES, MOST_RESOURCES + 1):
        text = f"the containers of the pod name more than {MOST_RESOURCES} GPU resources, and no more can be judged in time"
        yield TOO_LARGE.finding(limit_path(container, resource), text, "name in each container only what it needs")


def _selector_problems(pod: Pod) -> Iterator[Finding]:
    size = SelectionSize.of(pod.spec)
    if size.labels > MOST_EXPRESSIONS:
        text = f"has {size.labels} labels, and {MOST_EXPRESSIONS} can be judged in time"
        yield TOO_LARGE.finding(_SELECTOR, text, _OWN_LABEL)
    if size.expressions > MOST_EXPRESSIONS:
        text = f"has {size.expressions} expressions, and {MOST_EXPRESSIONS} can be judged in time"
        yield TOO_LARGE.finding(_TERMS, text, _OWN_LABEL)
    if size.values > MOST_VALUES:
        text = f"has {size.values} values in its expressions, and {MOST_VALUES} can be judged in time"
        yield TOO_LARGE.finding(_TERMS, text, _OWN_LABEL)
