"""Feature gates of the driver that configs need, or that forbid them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.nvidia.configs import nvidia_configs
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.nvidia.configs import NvidiaConfig
    from policies.dra.claims.subject import Subject

_GATES = {"TimeSlicing": "TimeSlicingSettings", "MPS": "MPSSupport"}
"""The feature gate of each sharing strategy."""


@CLAIMS.rule(
    "GA244",
    "A config must not need a feature gate that the driver has off",
    default=Severity.DENY,
    remedy="turn the feature gate on in the values of the driver's chart, or remove sharing",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/validate.go, "
    "cmd/gpu-kubelet-plugin/device_state.go applySharingConfig, pkg/featuregates",
)
def feature_gates(subject: Subject) -> Iterator[Problem]:
    """Time-slicing, MPS and passthrough are off in the driver by default, and then it refuses what asks for them.

    Which gates are on, settings tell (`spec.draDriver.featureGates`), or else the GPUCluster. Where nobody tells, a
    config that needs a gate is only warned about.
    """
    for found in nvidia_configs(subject, "GpuConfig", "MigDeviceConfig"):
        if found.strategy in _GATES:
            yield from _strategy_problems(subject, found)
        if found.strategy == "MPS":
            yield from _mps_problems(subject, found)
    for found in nvidia_configs(subject, "VfioDeviceConfig"):
        enabled = subject.facts.driver_gate("PassthroughSupport")
        if enabled is UNKNOWN:
            yield _unknown(found, "kind", gate="PassthroughSupport")
        elif not enabled:
            text = 'has no effect, since the driver offers no vfio devices while its feature gate "PassthroughSupport" is off'
            remedy = "turn the feature gate on in the values of the driver's chart, or remove the config"
            yield problem(found.at("kind"), text, remedy, severity=Severity.WARN)


def _strategy_problems(subject: Subject, found: NvidiaConfig) -> Iterator[Problem]:
    gate = _GATES[found.strategy]
    enabled = subject.facts.driver_gate(gate)
    if enabled is UNKNOWN:
        yield _unknown(found, "sharing", "strategy", gate=gate)
    elif not enabled:
        text = (
            f'"{found.strategy}" is selected as the GPU sharing strategy, but the "{gate}" feature gate is not enabled'
        )
        yield problem(found.at("sharing", "strategy"), text)


def _mps_problems(subject: Subject, found: NvidiaConfig) -> Iterator[Problem]:
    path = found.at("sharing", "strategy")
    if subject.facts.driver_gate("DynamicMIG") is True:
        text = "MPS is not yet supported when using featureGates.DynamicMIG=true"
        yield problem(path, text, "remove sharing, or turn DynamicMIG off")
    if subject.facts.driver_gate("ConsumableShares") is True:
        text = "MPS sharing is not supported when consumable shares is enabled, and its feature gate is on"
        remedy = "ask for a share of a GPU in place of MPS, or set consumableShares of the driver to disabled"
        yield problem(path, text, remedy, severity=Severity.WARN)


def _unknown(found: NvidiaConfig, *steps: str, gate: str) -> Problem:
    text = f'needs the driver\'s feature gate "{gate}", which is off by default'
    remedy = "turn it on, and say so in spec.draDriver.featureGates of the GPUAdmissionPolicy"
    return problem(found.at(*steps), text, remedy, severity=Severity.WARN)
