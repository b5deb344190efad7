"""MPS: several processes on one GPU at a time, each with a part of its threads and memory."""

from __future__ import annotations

import re
from math import ceil
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.nvidia.configs import all_selectors, most_devices, nvidia_configs, reached_requests
from policies.dra.claims.subject import CLAIMS
from policies.dra.published_devices import gpu_groups
from policies.kubernetes.printable import printable
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.identifiers import DRIVER
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.nvidia.configs import NvidiaConfig
    from policies.dra.claims.subject import Subject
    from policies.dra.device_groups import DeviceGroup

_PERCENTAGE = ("sharing", "mpsConfig", "defaultActiveThreadPercentage")
_MULTI_USER = ("sharing", "mpsConfig", "multiUser")
_ALL = 100
_VOLTA = 7
"""The major compute capability that lets processes of several users share a GPU."""
_TELLING = ("cudaComputeCapability", "architecture", "productName")
"""Attributes that depend on the age of a GPU."""


@CLAIMS.rule(
    "GA246",
    "Settings of MPS must be within their bounds",
    default=Severity.DENY,
    remedy="write a percentage from 0 to 100",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/validate.go, "
    "cmd/gpu-kubelet-plugin/mps_capability.go",
)
def mps_settings(subject: Subject) -> Iterator[Problem]:
    """The percentage is of the threads of a GPU that each process may use unless it says otherwise.

    Processes of several users can share a GPU since Volta, which has compute capability 7.0; the driver refuses older
    GPUs when it prepares them, so a cluster that has such GPUs is only warned about.
    """
    for found in nvidia_configs(subject, "GpuConfig", "MigDeviceConfig"):
        percentage = found.mps.get("defaultActiveThreadPercentage")
        if isinstance(percentage, int) and not isinstance(percentage, bool):
            if percentage < 0:
                yield problem(found.at(*_PERCENTAGE), "active thread percentage must not be negative")
            elif percentage > _ALL:
                yield problem(found.at(*_PERCENTAGE), "active thread percentage must not be greater than 100")
        if found.mps.get("multiUser") is True and found.kind == "GpuConfig" and not _is_choosy(found, subject):
            yield from _multi_user_problems(found, subject)


def _is_choosy(found: NvidiaConfig, subject: Subject) -> bool:
    """True if the GPUs are selected by an attribute that depends on their age."""
    texts = (
        [selector.text for selector in subject.selectors]
        if subject.kind == "DeviceClass"
        else [
            text for subrequest in reached_requests(found, subject) for text in all_selectors(subrequest, subject.facts)
        ]
    )
    return any(name in text for text in texts for name in _TELLING)


def _multi_user_problems(found: NvidiaConfig, subject: Subject) -> Iterator[Problem]:
    groups = gpu_groups(subject.facts.view)
    for group in () if groups is UNKNOWN else groups:
        capability = _capability(group)
        major = capability.partition(".")[0]
        if group.type == "gpu" and major.isdecimal() and int(major) < _VOLTA:
            text = f'needs cudaComputeCapability >= "7.0", and the cluster has {printable(group.product)} with "{capability}"'
            why = "multiuser mode was requested but is not supported"
            remedy = "select by cudaComputeCapability, or remove multiUser"
            path = found.at(*_MULTI_USER)
            yield problem(path, f'{text}, where the driver says "{why}"', remedy, severity=Severity.WARN)
            return


def _capability(group: DeviceGroup) -> str:
    return printable(str(group.first.attributes.get(f"{DRIVER}/cudaComputeCapability", "")))


_MEBIBYTE = 1024 * 1024
_UUID = re.compile(r"(GPU|MIG)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_INDEX = re.compile(r"[+-]?[0-9]{1,18}")
_DEFAULT = ("sharing", "mpsConfig", "defaultPinnedDeviceMemoryLimit")
_PER_DEVICE = ("sharing", "mpsConfig", "defaultPerDevicePinnedMemoryLimit")


@CLAIMS.rule(
    "GA247",
    "Limits of pinned memory must be for devices of the claim, and at least 1Mi",
    default=Severity.DENY,
    remedy="write 1Mi or more; a number without a unit counts bytes",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/sharing.go MpsPerDevicePinnedMemoryLimit.Normalize",
)
def pinned_memory_limits(subject: Subject) -> Iterator[Problem]:
    """The driver reads limits in whole mebibytes when it prepares devices, and refuses less than one.

    A limit of one device is under its UUID or under its index among the devices that the config is for, which are sorted
    by UUID and counted from 0. The index is checked against the most devices that the claim can get.
    """
    for found in nvidia_configs(subject, "GpuConfig", "MigDeviceConfig"):
        default = found.mps.get("defaultPinnedDeviceMemoryLimit")
        if default is not None and _is_too_low(default):
            text = f"invalid limit: default value set too low: {printable(str(default))}"
            yield problem(found.at(*_DEFAULT), text)
        limits = found.mps.get("defaultPerDevicePinnedMemoryLimit")
        if isinstance(limits, dict) and limits:
            yield from _limit_problems(found, limits, most_devices(found, subject))


def _limit_problems(found: NvidiaConfig, limits: dict[str, Any], devices: int) -> Iterator[Problem]:
    for key, limit in limits.items():
        path, name = found.at(*_PER_DEVICE) / str(key), str(key)
        if not _INDEX.fullmatch(name) and not _UUID.fullmatch(name):
            text = f"invalid device: unable to parse key as an integer: {printable(name)}"
            yield problem(path, text, 'write the index of a device, such as "0", or its UUID, GPU-...')
        elif _INDEX.fullmatch(name) and not 0 <= int(name) < devices:
            text = f"invalid device: invalid device index: {int(name)}"
            yield problem(path, text, _index_remedy(devices))
        elif _is_too_low(limit):
            yield problem(path, f"invalid limit: value set too low: {printable(name)}: {printable(str(limit))}")


def _index_remedy(devices: int) -> str:
    if devices == 1:
        return 'write "0"; the config is for one device'
    return f'write an index from "0" to "{devices - 1}"; the config is for at most {devices} devices'


def _is_too_low(limit: Any) -> bool:
    """True if a limit is less than a mebibyte; the rule on types reports what is not a quantity."""
    try:
        return ceil(parse_quantity(limit)) < _MEBIBYTE
    except QuantityError:
        return False
