"""MIG profiles: `1g.10gb+me`."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["MIGProfile"]

_PROFILE = re.compile(
    r"(?:(\d{1,2})c\.)?(\d{1,2})g\.(\d{1,4})gb((?:[+-][a-z]\w*(?:\.\w+)*(?:,[a-z]\w*(?:\.\w+)*)*)?)", re.ASCII
)
_RESOURCE = re.compile(
    r"((?:\d{1,2}c\.)?\d{1,2}g\.\d{1,4}gb)(?:\.([a-z]\w*(?:\.\w+)*)|(-[a-z]\w*(?:\.\w+)*))?", re.ASCII
)


@dataclass(frozen=True, slots=True, order=True)
class MIGProfile:
    """One shape of MIG device: how many compute slices, how many GPU slices, how much memory.

    Source: github.com/NVIDIA/go-nvlib pkg/nvlib/device/mig_profile.go.
    """

    gpu_slices: int
    memory_gb: int
    attributes: str = ""
    """With its sign: `+me`, `+me.all`, `+gfx`, `-me`."""
    compute_slices: int | None = None
    """Where they are fewer than the GPU slices (`1c.2g.10gb`); the compute instance shares its GPU instance then."""

    def __str__(self) -> str:
        compute = f"{self.compute_slices}c." if self.compute_slices is not None else ""
        return f"{compute}{self.gpu_slices}g.{self.memory_gb}gb{self.attributes}"

    @classmethod
    def parse(cls, text: str) -> MIGProfile | None:
        """Read a profile as NVML, mig-parted and ResourceSlices spell it; None where it is no profile."""
        match = _PROFILE.fullmatch(text)
        return cls._of(*match.groups()) if match else None

    @classmethod
    def from_label(cls, text: str) -> MIGProfile | None:
        """Read a profile as resource names and labels spell it: they cannot hold `+` and write `.` in its place.

        Source: github.com/NVIDIA/k8s-device-plugin internal/resource/nvml-mig-device.go GetName.
        """
        match = _RESOURCE.fullmatch(text)
        if match is None:
            return None
        size, positive, negative = match.groups()
        return cls.parse(size + (f"+{positive}" if positive else negative or ""))

    @classmethod
    def _of(cls, compute: str | None, slices: str, memory: str, attributes: str) -> MIGProfile:
        return cls(int(slices), int(memory), attributes, int(compute) if compute else None)

    @property
    def label(self) -> str:
        """The spelling of resource names and labels."""
        return str(self).replace("+", ".")

    @property
    def shares_gpu_instance(self) -> bool:
        """Whether it is a compute instance smaller than its GPU instance, which DRA drivers do not publish."""
        return self.compute_slices is not None and self.compute_slices != self.gpu_slices
