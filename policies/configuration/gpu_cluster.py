"""GPUCluster (`nvidia.com/v1alpha1`): GPUs by DRA instead of the device plugin."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.configuration.facts import counted_names
from policies.kubernetes.objects import FieldPath, lookup, name_of
from policies.kubernetes.phrases import closest
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import OFF_BY_DEFAULT, ON_BY_DEFAULT
from policies.rules.decision import Severity
from policies.rules.registry import Checks, Problem, problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.objects import Object

__all__ = ["GPU_CLUSTER"]

GPU_CLUSTER: Checks[Change] = Checks("GPUCluster", cluster_scoped=True)


_NAME = FieldPath(["metadata", "name"])
_LEAST_KUBERNETES = (1, 34)
_LEAST_BRANCH = 580
_BRANCH = re.compile(r"([0-9]{3,4})(?:\.|$)")


@GPU_CLUSTER.rule(
    "GA198",
    "A GPUCluster must have Kubernetes 1.34, driver 580 and no ClusterPolicy around it",
    default=Severity.DENY,
    remedy="stay with the ClusterPolicy, or delete it first",
    source="github.com/NVIDIA/gpu-operator controllers/gpucluster_controller.go, "
    "deployments/gpu-operator/templates/validations.yaml; docs.nvidia.com GPU Operator, DRA",
    rows=("A-02", "L-01", "L-05"),
)
def surroundings(change: Change) -> Iterator[Problem]:
    """The operator runs the device plugin for a ClusterPolicy, or the DRA driver for a GPUCluster.

    With both it stops to look after either; there is no migration in place, the ClusterPolicy has to go first. The DRA
    driver needs an API that Kubernetes has since 1.34 (1.34.2 in fact), and a driver of branch 580 or later.
    """
    policies = [name_of(policy) for policy in change.facts.known_objects("ClusterPolicy")]
    if change.is_created and policies:
        text = (
            f'"{change.name}" and the ClusterPolicy "{policies[0]}" exclude each other; the operator would report: A '
            f'ClusterPolicy CR "{policies[0]}" exists; a ClusterPolicy CR and GPUCluster CR may not exist at the same time'
        )
        yield problem(_NAME, text)
    version = change.facts.view.server_version()
    if version is not UNKNOWN and version < _LEAST_KUBERNETES:
        text = (
            f"needs Kubernetes 1.34.2 or later, and this is {version[0]}.{version[1]}; the DRA driver could not start"
        )
        yield problem(FieldPath(["kind"]), text, "write a ClusterPolicy, or upgrade Kubernetes first")
    yield from _old_drivers(change)


def _old_drivers(change: Change) -> Iterator[Problem]:
    """A problem if all known NVIDIADrivers are too old; hosts may have a driver without one."""
    drivers = change.facts.known_objects("NVIDIADriver")
    old = [f"{name_of(driver)} {lookup(driver, ('spec', 'version'))}" for driver in drivers if _is_old(driver)]
    if old and len(old) == len(drivers):
        text = f"needs driver {_LEAST_BRANCH} or later, and there is {counted_names('NVIDIADriver', old)}"
        remedy = "write a version such as 595.91.07 in the NVIDIADriver first"
        yield problem(FieldPath(["kind"]), text, remedy, severity=Severity.WARN)


def _is_old(driver: Object) -> bool:
    version = lookup(driver, ("spec", "version"))
    match = _BRANCH.match(version) if isinstance(version, str) else None
    return match is not None and int(match.group(1)) < _LEAST_BRANCH


_GATES = ("draDriver", "featureGates")
_GPUS = ("draDriver", "gpus", "kubeletPlugin")
_DOMAINS = ("draDriver", "computeDomains", "kubeletPlugin")
_PORTS = {_GPUS: 51516, _DOMAINS: 51515}
"""Of the health services, where none is set."""

_KNOWN = OFF_BY_DEFAULT | ON_BY_DEFAULT
_EXCLUDE = (
    ("DynamicMIG", "PassthroughSupport"),
    ("DynamicMIG", "NVMLDeviceHealthCheck"),
    ("DynamicMIG", "MPSSupport"),
    ("PassthroughSupport", "NVMLDeviceHealthCheck"),
)
_NEED = (("DeviceMetadata", "PassthroughSupport"), ("ComputeDomainCliques", "IMEXDaemonsWithDNSNames"))
_EXITS = "the DRA driver would exit with: feature gate validation failed: feature gate"


@GPU_CLUSTER.rule(
    "GA199",
    "The DRA driver must be able to start with its feature gates and ports",
    default=Severity.DENY,
    remedy="write false for one of the two",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu pkg/featuregates/featuregates.go, cmd/gpu-kubelet-plugin; "
    "github.com/NVIDIA/gpu-operator internal/state/dra_driver.go",
    rows=("L-02", "L-03", "L-04"),
)
def startable(change: Change) -> Iterator[Problem]:
    """All containers of the DRA driver check the feature gates before anything else.

    They exit when two gates exclude each other, or when there is no such gate, and no claim is prepared on any node. The
    plugins for GPUs and for ComputeDomains run in one pod, so their health services cannot have the same port either: the
    second one never becomes ready, and the pod restarts for ever.
    """
    for gate in change.mapping(*_GATES):
        if gate not in _KNOWN:
            guess = closest(gate, sorted(_KNOWN))
            text = f"is not a feature gate of DRA driver 0.5, which would exit with: unrecognized feature gate: {gate}"
            remedy = f"write {guess}" if guess else "remove it, or look it up in the version of the driver that you run"
            yield problem(change.at(*_GATES, gate), text, remedy, severity=Severity.WARN)
    for gate, other in _EXCLUDE:
        if _is_on(change, gate) and _is_on(change, other):
            text = f"excludes {other}; {_EXITS} {gate} is currently mutually exclusive with {other}"
            yield problem(change.at(*_GATES, gate), text)
    for gate, needed in _NEED:
        if _is_on(change, gate) and not _is_on(change, needed):
            where = gate if gate in change.mapping(*_GATES) else needed
            text = f"{gate} needs {needed}; {_EXITS} {gate} requires {needed} to also be enabled"
            yield problem(change.at(*_GATES, where), text, f"write {needed}: true, or {gate}: false")
    yield from _shares(change)
    yield from _ports(change)


def _is_on(change: Change, gate: str) -> bool:
    """True if a gate is on; all that are off by default are alpha."""
    return change.flag(*_GATES, gate, default=gate in ON_BY_DEFAULT or change.flag(*_GATES, "AllAlpha"))


def _shares(change: Change) -> Iterator[Problem]:
    """Problems of ConsumableShares: it needs a gate and a variable, and excludes MPS."""
    on = _is_on(change, "ConsumableShares")
    values = [
        (index, lookup(variable, ("value",)))
        for index, variable in enumerate(change.items(*_GPUS, "env"))
        if lookup(variable, ("name",)) == "CONSUMABLE_SHARES"
    ]
    set_to = [(index, value) for index, value in values if isinstance(value, str) and value not in ("", "disabled")]
    if on and not set_to:
        text = (
            "has no effect without the variable CONSUMABLE_SHARES of the plugin for GPUs, which is disabled by default"
        )
        remedy = "add {name: CONSUMABLE_SHARES, value: unlimited} to draDriver.gpus.kubeletPlugin.env"
        yield problem(change.at(*_GATES, "ConsumableShares"), text, remedy, severity=Severity.WARN)
    if on and _is_on(change, "MPSSupport"):
        text = "excludes MPSSupport: a GPU whose shares are handed out cannot be shared by MPS"
        yield problem(change.at(*_GATES, "ConsumableShares"), text, severity=Severity.WARN)
    for index, _ in set_to if not on else ():
        text = (
            "needs a feature gate; the DRA driver would exit with: invalid CLI flags: --consumable-shares requires "
            "feature gate ConsumableShares to be enabled"
        )
        yield problem(change.at(*_GPUS, "env", index, "value"), text, "write featureGates: {ConsumableShares: true}")


def _ports(change: Change) -> Iterator[Problem]:
    if not change.flag("draDriver", "computeDomains", "enabled", default=True):
        return
    ports: dict[tuple[str, ...], int] = {}
    for plugin, default in _PORTS.items():
        port = change.value(*plugin, "healthcheck", "port")
        if change.flag(*plugin, "healthcheck", "enabled", default=True):
            ports[plugin] = port if isinstance(port, int) else default
    if len(ports) == 2 and ports[_GPUS] == ports[_DOMAINS]:
        written = _DOMAINS if change.value(*_DOMAINS, "healthcheck", "port") is not None else _GPUS
        other = "gpus" if written == _DOMAINS else "computeDomains"
        text = f"is {ports[_GPUS]}, and so is that of {other} in the same pod; the second could not listen on it"
        yield problem(change.at(*written, "healthcheck", "port"), text, f"write {_PORTS[written]}, or leave it out")
