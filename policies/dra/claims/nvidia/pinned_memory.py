"""Pinned memory: how much of a GPU's memory each process under MPS may have."""

from __future__ import annotations

import re
from math import ceil
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.nvidia.configs import nvidia_configs
from policies.dra.claims.nvidia.reach import most_devices
from policies.kubernetes.printable import printable
from policies.kubernetes.quantities import QuantityError, parse_quantity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.nvidia.configs import NvidiaConfig
    from policies.dra.claims.subject import Subject

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
    """Limits are read when devices are prepared, in whole mebibytes; what is less than one is refused there.

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
    """Whether a limit is less than a mebibyte; what is no quantity is told by the rule on types."""
    try:
        return ceil(parse_quantity(limit)) < _MEBIBYTE
    except QuantityError:
        return False
