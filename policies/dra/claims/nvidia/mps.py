"""MPS: several processes on one GPU at a time, each with a part of its threads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.nvidia.configs import nvidia_configs
from policies.dra.claims.nvidia.reach import all_selectors, reached
from policies.dra.inventory import DeviceGroup, inventory
from policies.kubernetes.printable import printable
from policies.nvidia.identifiers import DRIVER
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.nvidia.configs import NvidiaConfig
    from policies.dra.claims.subject import Subject

_PERCENTAGE = ("sharing", "mpsConfig", "defaultActiveThreadPercentage")
_MULTI_USER = ("sharing", "mpsConfig", "multiUser")
_ALL = 100
_VOLTA = 7
"""The major compute capability that lets processes of several users share a GPU."""
_TELLING = ("cudaComputeCapability", "architecture", "productName")
"""Attributes that somebody selects by who minds how old a GPU is."""


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
    """Whether the GPUs are selected by what tells their age: whoever does that is taken to know it."""
    texts = (
        [selector.text for selector in subject.selectors]
        if subject.kind == "DeviceClass"
        else [text for subrequest in reached(found, subject) for text in all_selectors(subrequest, subject.facts)]
    )
    return any(name in text for text in texts for name in _TELLING)


def _multi_user_problems(found: NvidiaConfig, subject: Subject) -> Iterator[Problem]:
    groups = subject.facts.view.derive(inventory)
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
    return printable(str(group.device.attributes.get(f"{DRIVER}/cudaComputeCapability", "")))
