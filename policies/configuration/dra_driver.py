"""The settings of NVIDIA's DRA driver in a GPUCluster: feature gates, variables and ports."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.configuration.change import GPU_CLUSTER
from policies.kubernetes.names import closest, printable, write_closest
from policies.kubernetes.objects import FieldPath, lookup
from policies.nvidia.identifiers import IMEX_MODE, IMEX_OF_HOST
from policies.nvidia.releases import DRIVER_GATES, NEWEST_DRIVER, NVIDIAFeature
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change


_GATES = ("draDriver", "featureGates")
_GPUS = ("draDriver", "gpus", "kubeletPlugin")
_DOMAINS = ("draDriver", "computeDomains", "kubeletPlugin")
_DOMAIN_CONTROLLER = ("draDriver", "computeDomains", "controller")
_SHARES = re.compile(r"memory|unlimited|\+?0*[1-9][0-9]{0,17}")
_SHARE_WORDS = ("memory", "unlimited", "disabled")
_IMEX_MODES = ("driverManaged", IMEX_OF_HOST)
_PORTS = {_GPUS: 51516, _DOMAINS: 51515}
"""Of the health services, where none is set."""

_EXCLUDE = (
    (NVIDIAFeature.DynamicMIG, NVIDIAFeature.PassthroughSupport),
    (NVIDIAFeature.DynamicMIG, NVIDIAFeature.NVMLDeviceHealthCheck),
    (NVIDIAFeature.DynamicMIG, NVIDIAFeature.MPSSupport),
    (NVIDIAFeature.PassthroughSupport, NVIDIAFeature.NVMLDeviceHealthCheck),
)
_NEED = (
    (NVIDIAFeature.DeviceMetadata, NVIDIAFeature.PassthroughSupport),
    (NVIDIAFeature.ComputeDomainCliques, NVIDIAFeature.IMEXDaemonsWithDNSNames),
)
_EXITS = "the DRA driver would exit with: feature gate validation failed: feature gate"


@GPU_CLUSTER.rule(
    "GA199",
    "The DRA driver must be able to start with its feature gates and ports",
    remedy="write false for one of the two",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu pkg/featuregates/featuregates.go "
    "ValidateFeatureGates, cmd/gpu-kubelet-plugin/main.go validateCLIFlags, cmd/gpu-kubelet-plugin/health.go startHealthcheck, "
    "pkg/imex/imex.go Validate; "
    "github.com/NVIDIA/gpu-operator internal/state/dra_driver.go resolveHealthcheckPort",
    rows=("L-02", "L-03", "L-04"),
)
def startable(change: Change) -> Iterator[Problem]:
    """All containers of the DRA driver check the feature gates first, and then their variables.

    They exit when two gates exclude each other, when there is no such gate, or when a variable needs a gate that is off, and
    no claim is prepared on any node. CONSUMABLE_SHARES makes the driver share GPUs as consumable capacity, IMEX_MODE leaves the
    IMEX daemons to the hosts. The plugins for GPUs and for ComputeDomains run in one pod, so their health services cannot
    have the same port either: the second one never becomes ready, and the pod restarts for ever.
    """
    for gate in change.mapping(*_GATES):
        if gate not in DRIVER_GATES:
            guess = closest(gate, DRIVER_GATES)
            text = f"is not a feature gate of DRA driver {NEWEST_DRIVER}, which would exit with: unrecognized feature gate: {gate}"
            remedy = f"write {guess}" if guess else "remove it, or look it up in the version of the driver that you run"
            yield Problem(change.at(*_GATES, gate), text, remedy, severity=Severity.WARN)
    for feature, other in _EXCLUDE:
        if _is_on(change, feature) and _is_on(change, other):
            text = f"excludes {other.name}; {_EXITS} {feature.name} is currently mutually exclusive with {other.name}"
            yield Problem(change.at(*_GATES, feature.name), text)
    for feature, other in _NEED:
        if _is_on(change, feature) and not _is_on(change, other):
            gate, needed = feature.name, other.name
            where = gate if gate in change.mapping(*_GATES) else needed
            text = f"{gate} needs {needed}; {_EXITS} {gate} requires {needed} to also be enabled"
            yield Problem(change.at(*_GATES, where), text, f"write {needed}: true, or {gate}: false")
    yield from _shares(change)
    yield from _imex_modes(change)
    yield from _ports(change)


def _is_on(change: Change, gate: NVIDIAFeature) -> bool:
    return gate.is_on(change.mapping(*_GATES))


def _variables(change: Change, steps: tuple[str, ...], name: str) -> list[tuple[FieldPath, str]]:
    """Where a container of the DRA driver sets a variable, and the value; a missing value is empty."""
    return [
        (change.at(*steps, "env", index, "value"), value or "")
        for index, variable in enumerate(change.items(*steps, "env"))
        if lookup(variable, ("name",)) == name and isinstance(value := lookup(variable, ("value",)), str | None)
    ]


def _shares(change: Change) -> Iterator[Problem]:
    """Problems of ConsumableShares: it needs a gate and a variable, and excludes MPS."""
    on, exits = _is_on(change, NVIDIAFeature.ConsumableShares), "the DRA driver would exit with: invalid CLI flags:"
    set_to = [(path, value) for path, value in _variables(change, _GPUS, "CONSUMABLE_SHARES") if value != "disabled"]
    if on and not set_to:
        text = (
            "has no effect without the variable CONSUMABLE_SHARES of the plugin for GPUs, which is disabled by default"
        )
        remedy = "add {name: CONSUMABLE_SHARES, value: unlimited} to draDriver.gpus.kubeletPlugin.env"
        yield Problem(change.at(*_GATES, "ConsumableShares"), text, remedy, severity=Severity.WARN)
    if on and _is_on(change, NVIDIAFeature.MPSSupport):
        text = "excludes MPSSupport: a GPU whose shares are handed out cannot be shared by MPS"
        yield Problem(change.at(*_GATES, "ConsumableShares"), text, severity=Severity.WARN)
    severity = _severity_of_variable(change, NVIDIAFeature.ConsumableShares)
    for path, value in set_to:
        if not on:
            text = f"needs a feature gate; {exits} --consumable-shares requires feature gate ConsumableShares to be enabled"
            yield Problem(path, text, "write featureGates: {ConsumableShares: true}", severity=severity)
        elif not _SHARES.fullmatch(value):
            choices = "(must be 'disabled', 'memory', 'unlimited', or a positive integer)"
            text = f'{exits} invalid value for --consumable-shares: "{printable(value)}" {choices}'
            yield Problem(path, text, write_closest(value, _SHARE_WORDS, "write unlimited, or a number such as 10"))


def _imex_modes(change: Change) -> Iterator[Problem]:
    """Problems of IMEX daemons of hosts: they need a gate, and the same mode in plugin and controller."""
    if not change.flag("draDriver", "computeDomains", "enabled", default=True):
        return
    gate = NVIDIAFeature.HostManagedIMEXDaemon
    exits = "the DRA driver would exit with: imex configuration validation failed:"
    on, severity = _is_on(change, gate), _severity_of_variable(change, gate)
    modes = {place: _variables(change, place, IMEX_MODE) for place in (_DOMAIN_CONTROLLER, _DOMAINS)}
    for path, mode in (each for found in modes.values() for each in found):
        if mode not in _IMEX_MODES:
            remedy = write_closest(mode, _IMEX_MODES, f"write {' or '.join(_IMEX_MODES)}")
            yield Problem(path, f'{exits} unknown imex.mode "{printable(mode)}"', remedy, severity=severity)
        elif mode == IMEX_OF_HOST and not on:
            text = f'{exits} imex.mode="{mode}" requires the {gate.name} feature gate to be enabled'
            yield Problem(path, text, f"write featureGates: {{{gate.name}: true}}", severity=severity)
    for place in modes:
        for path, isolation in _variables(change, place, "IMEX_ISOLATION"):
            if isolation not in ("", "domain"):
                error = (
                    'imex.isolation="channel" is not supported yet: per-workload IMEX channel allocation is not implemented'
                    if isolation == "channel"
                    else f'unknown imex.isolation "{printable(isolation)}": must be "domain" or "channel"'
                )
                yield Problem(path, f"{exits} {error}", "remove it, or write domain", severity=severity)
    hosts = {place for place, found in modes.items() if found and found[-1][1] == IMEX_OF_HOST}
    variable = f"{{name: {IMEX_MODE}, value: {IMEX_OF_HOST}}}"
    if on and not hosts:
        text = f"has no effect without the variable {IMEX_MODE} of the plugin and the controller for ComputeDomains"
        remedy = f"add {variable} to the env of computeDomains.kubeletPlugin and of computeDomains.controller"
        yield Problem(change.at(*_GATES, gate.name), text, remedy, severity=Severity.WARN)
    elif len(hosts) == 1:
        (place,) = hosts
        other = _DOMAINS if place == _DOMAIN_CONTROLLER else _DOMAIN_CONTROLLER
        text = f"is {IMEX_OF_HOST} in {place[-1]} only; the other part still counts on daemons of the driver"
        yield Problem(modes[place][-1][0], text, f"add {variable} to {'.'.join(other)}.env", severity=Severity.WARN)


def _severity_of_variable(change: Change, gate: NVIDIAFeature) -> Severity | None:
    """The severity of a wrong variable that came with a gate: drivers before it ignore the variable."""
    return Severity.WARN if gate.is_in(change.text("draDriver", "version")) is False else None


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
        yield Problem(change.at(*written, "healthcheck", "port"), text, f"write {_PORTS[written]}, or leave it out")
