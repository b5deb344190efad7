"""Time-slicing: how long a process may keep the GPU before the next one gets it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.nvidia.configs import nvidia_configs
from policies.kubernetes.misspellings import closest
from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject
    from policies.kubernetes.paths import FieldPath

_INTERVALS = ("Default", "Short", "Medium", "Long")


@CLAIMS.rule(
    "GA245",
    "A time-slice interval must be one that the driver knows",
    default=Severity.DENY,
    remedy="write interval: Default, or leave timeSlicingConfig out",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/validate.go",
)
def time_slice_intervals(subject: Subject) -> Iterator[Problem]:
    """There are four intervals. Without timeSlicingConfig the driver takes Default; with an empty one it fails.

    MIG devices have no time slices to set: the strategy is accepted for them and does nothing.
    """
    for found in nvidia_configs(subject, "GpuConfig", "MigDeviceConfig"):
        if found.strategy != "TimeSlicing":
            continue
        if found.kind == "MigDeviceConfig":
            text = "has no effect on MIG devices, whose time slices cannot be set"
            remedy = "remove sharing; pods share a MIG device by sharing its claim"
            yield problem(found.at("sharing", "strategy"), text, remedy, severity=Severity.WARN)
        elif isinstance(found.value("sharing", "timeSlicingConfig"), dict):
            path = found.at("sharing", "timeSlicingConfig", "interval")
            yield from _interval_problems(path, found.value("sharing", "timeSlicingConfig", "interval"))


def _interval_problems(path: FieldPath, interval: Any) -> Iterator[Problem]:
    if interval is None:
        text = 'is missing, and the driver fails on that with "invalid memory address or nil pointer dereference"'
        yield problem(path, text)
    elif isinstance(interval, str) and interval not in _INTERVALS:
        text = f"unknown time-slice interval: {printable(interval)}"
        guess = closest(interval, _INTERVALS)
        remedy = f'write "{guess}"' if guess else f"write one of {', '.join(_INTERVALS)}"
        yield problem(path, f"{text}, supported time-slice intervals: {', '.join(_INTERVALS)}", remedy)
