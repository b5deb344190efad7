"""Sharing of GPUs by configs of claims: time-slicing and MPS, their feature gates, and VFIO devices."""

from __future__ import annotations

import re
from math import ceil
from typing import TYPE_CHECKING, Any

from policies.claims.claim_subject import CLAIMS, CLAIMS_AND_CLASSES
from policies.claims.nvidia_configs import (
    all_selectors,
    applied_configs,
    most_devices,
    nvidia_configs,
    reached_requests,
    requested_types,
)
from policies.devices.published_devices import gpu_groups
from policies.kubernetes.names import closest, printable, write_closest
from policies.kubernetes.objects import lookup
from policies.kubernetes.quantities import quantity_or_none
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import DRIVER
from policies.nvidia.releases import NVIDIAFeature
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from policies.claims.claim_subject import Subject
    from policies.claims.nvidia_configs import NvidiaConfig
    from policies.devices.resource_claims import Subrequest


_VOLTA = 7
"""The major compute capability that lets processes of several users share a GPU."""
_TELLING = ("cudaComputeCapability", "architecture", "productName")
"""Attributes that depend on the age of a GPU."""


@CLAIMS_AND_CLASSES.rule(
    "GA246",
    "Settings of MPS must be within their bounds",
    remedy="write a percentage from 0 to 100",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/validate.go Validate, "
    "cmd/gpu-kubelet-plugin/mps_capability.go",
)
def mps_settings(subject: Subject) -> Iterator[Problem]:
    """The percentage is of the threads of a GPU that each process may use unless it says otherwise.

    Processes of several users can share a GPU since Volta, which has compute capability 7.0; the driver refuses older
    GPUs when it prepares them, so a cluster that has such GPUs is only warned about.
    """
    for found in applied_configs(subject, "GpuConfig", "MigDeviceConfig"):
        percentage, path = found.mps.get("defaultActiveThreadPercentage"), found.at("sharing", "mpsConfig")
        if isinstance(percentage, int) and not isinstance(percentage, bool) and not 0 <= percentage <= 100:
            bound = "negative" if percentage < 0 else "greater than 100"
            yield Problem(path / "defaultActiveThreadPercentage", f"active thread percentage must not be {bound}")
        if found.mps.get("multiUser") is not True or found.kind != "GpuConfig":
            continue
        texts = [selector.text for selector in subject.selectors]
        if subject.kind != "DeviceClass":
            reached = reached_requests(found, subject)
            texts = [text for subrequest in reached for text in all_selectors(subrequest, subject.facts)]
        groups = gpu_groups(subject.facts.view)
        if groups is UNKNOWN or any(name in text for text in texts for name in _TELLING):
            continue
        for group in groups:
            capability = printable(str(group.first.attributes.get(f"{DRIVER}/cudaComputeCapability", "")))
            major = capability.partition(".")[0]
            if group.type == "gpu" and major.isdecimal() and int(major) < _VOLTA:
                has = f'the cluster has {printable(group.product)} with "{capability}"'
                why = "multiuser mode was requested but is not supported"
                text = f'needs cudaComputeCapability >= "7.0", and {has}, where the driver says "{why}"'
                remedy = "select by cudaComputeCapability, or remove multiUser"
                yield Problem(path / "multiUser", text, remedy, severity=Severity.WARN)
                break


_MEBIBYTE = 1024 * 1024
_UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_INDEX = re.compile(r"[+-]?[0-9]{1,18}")
_PER_DEVICE = ("sharing", "mpsConfig", "defaultPerDevicePinnedMemoryLimit")


@CLAIMS_AND_CLASSES.rule(
    "GA247",
    "Limits of pinned memory must be for devices of the claim, and at least 1Mi",
    remedy="write 1Mi or more; a number without a unit counts bytes",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/sharing.go MpsPerDevicePinnedMemoryLimit.Normalize",
)
def pinned_memory_limits(subject: Subject) -> Iterator[Problem]:
    """The driver reads limits in whole mebibytes when it prepares devices, and refuses less than one.

    A limit of one device is under its UUID or under its index among the devices that the config is for, which are sorted
    by UUID and counted from 0. The index is checked against the most devices that the claim can get.
    """
    for found in applied_configs(subject, "GpuConfig", "MigDeviceConfig"):
        default = found.mps.get("defaultPinnedDeviceMemoryLimit")
        if default is not None and _is_too_low(default):
            text = f"invalid limit: default value set too low: {printable(str(default))}"
            yield Problem(found.at("sharing", "mpsConfig", "defaultPinnedDeviceMemoryLimit"), text)
        limits = found.mps.get("defaultPerDevicePinnedMemoryLimit")
        if isinstance(limits, dict) and limits:
            yield from _limit_problems(found, limits, most_devices(found, subject))


def _limit_problems(found: NvidiaConfig, limits: dict[str, Any], devices: int) -> Iterator[Problem]:
    for key, limit in limits.items():
        path, name = found.at(*_PER_DEVICE) / str(key), str(key)
        if not _INDEX.fullmatch(name) and not _UUID.fullmatch(name):
            text = f"invalid device: unable to parse key as an integer: {printable(name)}"
            yield Problem(path, text, 'write the index of a device, such as "0", or its UUID, GPU-...')
        elif _INDEX.fullmatch(name) and not 0 <= int(name) < devices:
            text = f"invalid device: invalid device index: {int(name)}"
            remedy = 'write "0"; the config is for one device'
            if devices > 1:
                remedy = f'write an index from "0" to "{devices - 1}"; the config is for at most {devices} devices'
            yield Problem(path, text, remedy)
        elif _is_too_low(limit):
            yield Problem(path, f"invalid limit: value set too low: {printable(name)}: {printable(str(limit))}")


def _is_too_low(limit: Any) -> bool:
    """True if a limit is less than a mebibyte; the rule on types reports what is not a quantity."""
    amount = quantity_or_none(limit)
    return amount is not None and ceil(amount) < _MEBIBYTE


_STRATEGIES = ("TimeSlicing", "MPS")
_BLOCKS = {"timeSlicingConfig": "TimeSlicing", "mpsConfig": "MPS"}
"""The strategy that each block of settings is for."""


@CLAIMS_AND_CLASSES.rule(
    "GA243",
    "Sharing must have one strategy and only the settings of that strategy",
    remedy="write strategy: TimeSlicing with timeSlicingConfig, or strategy: MPS with mpsConfig",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/validate.go validateSharingStrategy, sharing.go "
    "GetTimeSlicingConfig, GetMpsConfig",
)
def sharing_strategies(subject: Subject) -> Iterator[Problem]:
    """The strategy is TimeSlicing or MPS; the driver refuses others, and settings of the other strategy.

    What both of its blocks say is compared only when devices are prepared, so a claim with both is stored, allocated,
    and never starts a pod.
    """
    for found in applied_configs(subject, "GpuConfig", "MigDeviceConfig"):
        if not isinstance(found.value("sharing"), dict):
            continue
        strategy = found.value("sharing", "strategy")
        if found.strategy in _STRATEGIES:
            yield from _unfit_blocks(found)
        elif strategy is None or isinstance(strategy, str):
            text = f"unknown GPU sharing strategy: {printable(strategy or '')}"
            text += f", supported GPU sharing strategies: {', '.join(_STRATEGIES)}"
            meant = [each for block, each in _BLOCKS.items() if found.value("sharing", block) is not None]
            guess = closest(found.strategy, _STRATEGIES) or (meant[0] if len(meant) == 1 else None)
            remedy = f'write "{guess}"' if guess else "write TimeSlicing or MPS, or remove sharing"
            yield Problem(found.at("sharing", "strategy"), text, remedy)


def _unfit_blocks(found: NvidiaConfig) -> Iterator[Problem]:
    for block, strategy in _BLOCKS.items():
        if found.value("sharing", block) is None or found.strategy == strategy:
            continue
        is_meant = all(found.value("sharing", other) is None for other in _BLOCKS if other != block)
        path = found.at("sharing", block)
        remedy = f"remove {block}, or write strategy: {strategy}" if is_meant else f"remove {block}"
        if found.kind == "GpuConfig":
            name = f"{block[:1].upper()}{block[1:]}"
            yield Problem(path, f"cannot use {name} with the '{found.strategy}' strategy", remedy)
        elif block == "mpsConfig":
            text = f"has no effect with the '{found.strategy}' strategy"
            yield Problem(path, text, remedy, severity=Severity.WARN)


_GATES = {"TimeSlicing": NVIDIAFeature.TimeSlicingSettings, "MPS": NVIDIAFeature.MPSSupport}
"""The feature gate of each sharing strategy."""


@CLAIMS_AND_CLASSES.rule(
    "GA244",
    "A config must not need a feature gate that the driver has off",
    remedy="turn the feature gate on in the values of the driver's chart, or remove sharing",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/validate.go validateSharingStrategy, "
    "cmd/gpu-kubelet-plugin/device_state.go applySharingConfig, pkg/featuregates/featuregates.go defaultFeatureGates",
)
def feature_gates(subject: Subject) -> Iterator[Problem]:
    """Time-slicing, MPS and passthrough are off in the driver by default, and then it refuses them.

    The settings (`spec.draDriver.featureGates`), or else the GPUCluster, say which gates are on. If neither does, a
    config that needs a gate only gets a warning.
    """
    for found in applied_configs(subject, "GpuConfig", "MigDeviceConfig"):
        path, gate = found.at("sharing", "strategy"), _GATES.get(found.strategy)
        enabled = subject.facts.driver_gate(gate) if gate else True
        if gate and enabled is UNKNOWN:
            yield _unknown_gate(found, "sharing", "strategy", gate=gate)
        elif gate and not enabled:
            text = f'"{found.strategy}" is selected as the GPU sharing strategy'
            yield Problem(path, f'{text}, but the "{gate.name}" feature gate is not enabled')
        if found.strategy == "MPS" and subject.facts.driver_gate(NVIDIAFeature.DynamicMIG) is True:
            text = "MPS is not yet supported when using featureGates.DynamicMIG=true"
            yield Problem(path, text, "remove sharing, or turn DynamicMIG off")
        if found.strategy == "MPS" and subject.facts.driver_gate(NVIDIAFeature.ConsumableShares) is True:
            text = "MPS sharing is not supported when consumable shares is enabled, and its feature gate is on"
            remedy = "request a share of a GPU in place of MPS, or set consumableShares of the driver to disabled"
            yield Problem(path, text, remedy, severity=Severity.WARN)
    for found in applied_configs(subject, "VfioDeviceConfig"):
        enabled = subject.facts.driver_gate(NVIDIAFeature.PassthroughSupport)
        if enabled is UNKNOWN:
            yield _unknown_gate(found, "kind", gate=NVIDIAFeature.PassthroughSupport)
        elif not enabled:
            text = 'has no effect, since the driver offers no vfio devices while its feature gate "PassthroughSupport" is off'
            remedy = "turn the feature gate on in the values of the driver's chart, or remove the config"
            yield Problem(found.at("kind"), text, remedy, severity=Severity.WARN)


def _unknown_gate(found: NvidiaConfig, *steps: str, gate: NVIDIAFeature) -> Problem:
    text = f'needs the driver\'s feature gate "{gate.name}", which is off by default'
    remedy = "turn it on, and say so in spec.draDriver.featureGates of the GPUAdmissionPolicy"
    return Problem(found.at(*steps), text, remedy, severity=Severity.WARN)


_INTERVALS = ("Default", "Short", "Medium", "Long")


@CLAIMS_AND_CLASSES.rule(
    "GA245",
    "A time-slice interval must be one that the driver knows",
    remedy="write interval: Default, or leave timeSlicingConfig out",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/validate.go Validate",
)
def time_slice_intervals(subject: Subject) -> Iterator[Problem]:
    """There are four intervals. The default is Default; with an empty timeSlicingConfig the driver fails.

    MIG devices have no time slices to set: the strategy is accepted for them and does nothing.
    """
    for found in applied_configs(subject, "GpuConfig", "MigDeviceConfig"):
        if found.strategy != "TimeSlicing":
            continue
        if found.kind == "MigDeviceConfig":
            text = "has no effect on MIG devices, whose time slices cannot be set"
            remedy = "remove sharing; pods share a MIG device by sharing its claim"
            yield Problem(found.at("sharing", "strategy"), text, remedy, severity=Severity.WARN)
        elif isinstance(found.value("sharing", "timeSlicingConfig"), dict):
            steps = ("sharing", "timeSlicingConfig", "interval")
            interval = found.value(*steps)
            if interval is None:
                text = (
                    'is missing, and the driver fails on that with "invalid memory address or nil pointer dereference"'
                )
                yield Problem(found.at(*steps), text)
            elif isinstance(interval, str) and interval not in _INTERVALS:
                known = ", ".join(_INTERVALS)
                text = f"unknown time-slice interval: {printable(interval)}, supported time-slice intervals: {known}"
                yield Problem(found.at(*steps), text, write_closest(interval, _INTERVALS, f"write one of {known}"))


_POLICIES = ("LegacyOnly", "PreferIommuFD")


@CLAIMS.rule(
    "GA248",
    "The VFIO devices of a claim must have one config, with an IOMMU backend that exists",
    remedy="write one VfioDeviceConfig without requests, which is for all VFIO devices of the claim",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/iommu.go Validate, "
    "cmd/gpu-kubelet-plugin/device_state.go prepareDevices",
)
def vfio_configs(subject: Subject) -> Iterator[Problem]:
    """All VFIO devices of a claim have the same IOMMU device nodes, so the driver allows one config.

    Requests that no config is for have the driver's default, which counts as one more. Releases before 0.5 prepare several.
    While the feature gate PassthroughSupport is off, there are no VFIO devices, and nothing reads these configs.
    """
    is_off = subject.facts.driver_gate(NVIDIAFeature.PassthroughSupport) is False
    for found in applied_configs(subject, "VfioDeviceConfig"):
        policy = found.value("iommu", "backendPolicy")
        if isinstance(policy, str) and policy not in ("", *_POLICIES):
            known = ", ".join(_POLICIES)
            text = f"unknown IOMMU backend policy: {printable(policy)}, supported IOMMU backend policies: {known}"
            remedy = write_closest(policy, _POLICIES, f"write one of {known}")
            yield Problem(found.at("iommu", "backendPolicy"), text, remedy, severity=Severity.WARN if is_off else None)
    configs, running = list(nvidia_configs(subject, "VfioDeviceConfig")), subject.facts.driver_version()
    exact = [each for request in subject.requests if not request.is_prioritized for each in request.subrequests]
    # Only requests that certainly get VFIO devices count.
    groups = {
        _vfio_group(subrequest, configs, subject)
        for subrequest in (exact if configs else ())
        if requested_types(subrequest, subject.facts) == {"vfio"}
    }
    if len(groups) > 1:
        text = f"the claim contains {len(groups)} VFIO device groups, but at most one is supported per claim"
        is_checked = NVIDIAFeature.OneVfioGroup.is_in(running) is True and not is_off
        yield Problem(configs[-1].config.path, text, severity=None if is_checked else Severity.WARN)


def _vfio_group(subrequest: Subrequest, configs: list[NvidiaConfig], subject: Subject) -> Hashable:
    """The config of a request's devices: the last that is for them, else their class's, else the default."""
    for index, found in reversed(list(enumerate(configs))):
        if not found.config.requests or subrequest.full_name in found.config.requests:
            return index
    class_configs = lookup(subject.facts.device_class(subrequest.device_class), ("spec", "config"))
    return subrequest.device_class if class_configs else None
