"""Node selectors of NVIDIADrivers: one driver for each node, and nodes that can get one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.configuration.checks import NVIDIA_DRIVER
from policies.configuration.named_objects import counted_names, quoted_names
from policies.decision import Severity
from policies.kubernetes.nodes import labels_of
from policies.kubernetes.objects import Object, name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.nvidia.identifiers import MIG_CONFIG_LABEL, PRESENT_LABEL
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

__all__ = ["selector_of", "selects"]

_OWNER = "nvidia.com/gpu-operator.driver.owner"
_EVERY_GPU_NODE = {PRESENT_LABEL: "true"}


def selector_of(driver: Object) -> dict[str, Any]:
    """The node labels that an NVIDIADriver selects; without a selector, that of all GPU nodes."""
    selector = lookup(driver, ("spec", "nodeSelector"))
    return selector if isinstance(selector, dict) else _EVERY_GPU_NODE


def selects(selector: dict[str, Any], node: Object) -> bool:
    """True if a node has all labels of a selector."""
    return selector.items() <= dict(labels_of(node)).items()


@NVIDIA_DRIVER.rule(
    "GA192",
    "A node must have one NVIDIADriver",
    default=Severity.DENY,
    remedy="give each NVIDIADriver a nodeSelector of its own, and default: true to the one for the rest",
    source="github.com/NVIDIA/gpu-operator internal/validator/validator.go; issues 2259, 1661, 2355",
    rows=("K-01", "K-02", "K-03", "K-04"),
)
def one_driver_per_node(change: Change) -> Iterator[Problem]:
    """If two NVIDIADrivers select the same node, the operator deploys no NVIDIADriver at all.

    Their state becomes notReady with the reason ConflictingNodeSelector, and no driver is installed or upgraded
    anywhere until one of them is changed. The one with `default: true` takes the nodes that are left, so it conflicts
    with none; there can be only one.
    """
    others = [
        driver
        for driver in change.facts.known_objects("NVIDIADriver")
        if name_of(driver) != change.name and not lookup(driver, ("metadata", "deletionTimestamp"))
    ]
    defaults = [driver for driver in others if lookup(driver, ("spec", "default")) is True]
    if _OWNER in change.mapping("nodeSelector"):
        error = f'NVIDIADriver "{change.name}" nodeSelector cannot use reserved label "{_OWNER}"'
        text = f"is the operator's own mark of the nodes that a driver has; it would report: {error}"
        yield problem(change.at("nodeSelector", _OWNER), text, "select nodes by a label of your own")
    if change.flag("default") and defaults:
        names = [name_of(driver) for driver in defaults]
        error = f"multiple default NVIDIADrivers found: [{' '.join(sorted([*names, change.name]))}]"
        text = f"is true for {quoted_names(names)} too; the operator would report: {error}"
        yield problem(change.at("default"), text, "write default: false, and a nodeSelector")
    for other in others if not change.flag("default") else ():
        if other not in defaults:
            yield from _conflict(change, other)


def _conflict(change: Change, other: Object) -> Iterator[Problem]:
    mine, theirs, name = selector_of(change.object), selector_of(other), name_of(other)
    path, pair = change.at("nodeSelector"), " ".join(sorted([change.name, name]))
    shared = [
        name_of(node) for node in change.facts.known_objects("Node") if selects(mine, node) and selects(theirs, node)
    ]
    if shared:
        text = (
            f'selects {counted_names("node", shared)}, and so does "{name}"; the operator would report: '
            f"multiple NVIDIADrivers match the same node {shared[0]}: [{pair}]"
        )
        yield problem(path, text)
    elif not change.mapping("nodeSelector"):
        text = f'is empty, which selects every GPU node, and "{name}" is for some of them'
        yield problem(path, text, "add a nodeSelector, or default: true if it is for the nodes that are left")
    elif not lookup(other, ("spec", "nodeSelector")):
        yield problem(
            path, f'selects nodes that "{name}" has already, as it has no nodeSelector and takes every GPU node'
        )
    elif mine.items() <= theirs.items() or theirs.items() <= mine.items():
        wider, narrower = (change.name, name) if mine.items() <= theirs.items() else (name, change.name)
        text = f'"{wider}" selects every node that "{narrower}" selects; which nodes these are is not known here'
        yield problem(path, text, severity=Severity.WARN)


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
    """The problem if every term of the affinity excludes the node selector."""
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
