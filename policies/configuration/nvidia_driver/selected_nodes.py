"""Selected nodes: whether there are any, and whether the operator installs the driver on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.nvidia_driver.checks import NVIDIA_DRIVER
from policies.configuration.nvidia_driver.selectors import selector_of, selects
from policies.decision import Severity
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.nvidia.identifiers import MIG_CONFIG_LABEL
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

_BY_DRIVER = tuple(
    f"nvidia.com/{name}"
    for name in (
        *("cuda.", "gfd.", "vgpu.", "mig.", "mig-", "mps.", "gpu.compute.", "gpu.product", "gpu.count", "gpu.replicas"),
        *("gpu.memory", "gpu.family", "gpu.mode", "gpu.machine", "gpu.sharing-strategy", "gpu.clique"),
    )
)
"""What labels begin with that GPU Feature Discovery sets, which starts when the driver runs."""
_BY_ADMINISTRATORS = (MIG_CONFIG_LABEL, "nvidia.com/vgpu.config")


@NVIDIA_DRIVER.rule(
    "GA195",
    "An NVIDIADriver must select at least one node",
    default=Severity.WARN,
    remedy="select nodes by a label of Node Feature Discovery or of your own",
    source="github.com/NVIDIA/gpu-operator controllers/nvidiadriver_controller.go; docs.nvidia.com GPU Operator, driver "
    "configuration",
    rows=("K-06", "K-09", "K-10", "K-14"),
)
def nodes_to_run_on(change: Change) -> Iterator[Problem]:
    """An NVIDIADriver that selects no node is accepted and does nothing, without an event.

    Labels of GPU Feature Discovery come into being when a driver runs: a new node never has them before it has the
    driver, and so never gets it. As long as the ClusterPolicy does not say `useNvidiaDriverCRD: true`, every
    NVIDIADriver is `disabled`.
    """
    if change.deleted:
        return
    policy = change.facts.cluster_policy()
    if isinstance(policy, dict) and lookup(policy, ("spec", "driver", "useNvidiaDriverCRD")) is not True:
        text = (
            f'"{change.name}" would be disabled; the operator would report: useNvidiaDriverCRD is not enabled in '
            "ClusterPolicy"
        )
        remedy = f'write driver.useNvidiaDriverCRD: true in the ClusterPolicy "{name_of(policy)}"'
        yield problem(FieldPath(["metadata", "name"]), text, remedy)
    for key in change.mapping("nodeSelector"):
        if key.startswith(_BY_DRIVER) and not key.startswith(_BY_ADMINISTRATORS):
            text = "is a label that needs a running driver, so a new node would never get the driver that it waits for"
            yield problem(change.at("nodeSelector", key), text)
    yield from _no_node(change)
    yield from _contradiction(change)


def _no_node(change: Change) -> Iterator[Problem]:
    nodes, selector = change.facts.gpu_nodes(), selector_of(change.object)
    if nodes is UNKNOWN or not nodes or not selector or change.flag("default"):
        return
    if not any(selects(selector, node) for node in nodes):
        wanted = ", ".join(f"{key}={value}" for key, value in selector.items())
        text = f"none of the {len(nodes)} GPU nodes here has {wanted}, so nothing would be deployed"
        yield problem(change.at("nodeSelector"), text, "label the nodes, or select a label that they have")


def _contradiction(change: Change) -> Iterator[Problem]:
    """Where every term of the affinity excludes what the selector wants."""
    required = ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
    terms, selector = change.items(*required), change.mapping("nodeSelector")
    if terms and all(any(_excludes(expression, selector) for expression in _expressions(term)) for term in terms):
        text = "excludes every node that nodeSelector selects; the driver's pods follow nodeSelector"
        yield problem(
            change.at("nodeAffinity"), text, "remove nodeAffinity, and say in nodeSelector which nodes you mean"
        )


def _expressions(term: Any) -> list[Any]:
    expressions = lookup(term, ("matchExpressions",))
    return expressions if isinstance(expressions, list) else []


def _excludes(expression: Any, selector: dict[str, Any]) -> bool:
    key, values = lookup(expression, ("key",)), lookup(expression, ("values",))
    if not isinstance(key, str) or key not in selector:
        return False
    named = isinstance(values, list) and selector[key] in values
    match lookup(expression, ("operator",)):
        case "In":
            return not named
        case "NotIn":
            return named
        case "DoesNotExist":
            return True
        case _:
            return False
