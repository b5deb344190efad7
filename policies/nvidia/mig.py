"""MIG profiles: `1g.10gb+me`."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["MIGProfile"]

_ATTRIBUTE = r"[a-z][A-Za-z0-9]*(?:\.[A-Za-z0-9]+)*"
_PROFILE = re.compile(
    rf"(?:([1-9]\d?)c\.)?(\d{{1,2}})g\.(\d{{1,4}})gb((?:[+-]{_ATTRIBUTE}(?:,{_ATTRIBUTE})*)?)", re.ASCII
)
_RESOURCE = re.compile(rf"((?:[1-9]\d?c\.)?\d{{1,2}}g\.\d{{1,4}}gb)(?:\.({_ATTRIBUTE})|(-{_ATTRIBUTE}))?", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class MIGProfile:
    """One shape of MIG device: how many compute slices, how many GPU slices, how much memory.

    Source: github.com/NVIDIA/go-nvlib pkg/nvlib/device/mig_profile.go.
    """

    gpu_slices: int
    memory_gb: int
    attributes: str = ""
    """With its sign: `+me`, `+me.all`, `+gfx`, `-me`."""
    compute_slices: int = 0
    """Where they are fewer than the GPU slices (`1c.2g.10gb`), for the compute instance shares its GPU instance then.

    0 where it fills the GPU instance: `1c.1g.5gb` is another spelling of `1g.5gb`, and read as that.
    """

    def __str__(self) -> str:
        compute = f"{self.compute_slices}c." if self.compute_slices else ""
        return f"{compute}{self.gpu_slices}g.{self.memory_gb}gb{self.attributes}"

    @classmethod
    def parse(cls, text: str) -> MIGProfile | None:
        """Read a profile as NVML, mig-parted and ResourceSlices spell it; None where it is no profile.

        Numbers that no GPU will reach are no profile either, and an attribute stands at most once.
        """
        match = _PROFILE.fullmatch(text)
        if match is None:
            return None
        attributes = match.group(4)[1:].split(",")
        return cls._of(*match.groups()) if len(set(attributes)) == len(attributes) else None

    @classmethod
    def from_label(cls, text: str) -> MIGProfile | None:
        """Read a profile as resource names and labels spell it, with `.` in place of `+`.

        Source: github.com/NVIDIA/k8s-device-plugin internal/resource/nvml-mig-device.go GetName.
        """
        match = _RESOURCE.fullmatch(text)
        if match is None:
            return None
        size, positive, negative = match.groups()
        return cls.parse(size + (f"+{positive}" if positive else negative or ""))

    @classmethod
    def _of(cls, compute: str | None, slices: str, memory: str, attributes: str) -> MIGProfile:
        fills = compute is None or int(compute) == int(slices)
        return cls(int(slices), int(memory), attributes, 0 if fills else int(compute or 0))

    @property
    def label(self) -> str:
        """The spelling of resource names and labels."""
        return str(self).replace("+", ".")

    @property
    def shares_gpu_instance(self) -> bool:
        """True if it is a compute instance smaller than its GPU instance, which DRA drivers do not publish."""
        return self.compute_slices != 0
