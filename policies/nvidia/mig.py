"""MIG profiles such as `1g.10gb+me`, the geometry of GPUs, and resource names, also misspelt ones."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import cache

from policies.kubernetes.bounds import remember_short
from policies.kubernetes.names import closest
from policies.nvidia.identifiers import GPU_RESOURCE, VENDOR_PREFIX

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
        compute, slices, memory, attributes = match.groups()
        each = attributes[1:].split(",")
        if len(set(each)) < len(each):
            return None
        fills = compute is None or int(compute) == int(slices)
        return cls(int(slices), int(memory), attributes, 0 if fills else int(compute))

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

    @property
    def label(self) -> str:
        """The spelling of resource names and labels."""
        return str(self).replace("+", ".")

    @property
    def shares_gpu_instance(self) -> bool:
        """True if it is a compute instance smaller than its GPU instance, which DRA drivers do not publish."""
        return self.compute_slices != 0


@dataclass(frozen=True, slots=True)
class Shape:
    """The slices of a GPU that a GPU instance takes, and the attributes in which it comes."""

    compute_slices: int
    memory_slices: int
    attributes: tuple[str, ...] = ("",)


@dataclass(frozen=True, slots=True)
class Layout:
    """The division of GPUs of one kind, whatever their memory is."""

    compute_slices: int
    memory_slices: int
    shapes: tuple[Shape, ...]


AMPERE = Layout(7, 8, (Shape(1, 1, ("", "+me")), Shape(1, 2), Shape(2, 2), Shape(3, 4), Shape(4, 4), Shape(7, 8)))
"""A100 and every data centre GPU after it: seven compute slices share eight slices of memory."""
AMPERE_SMALL = Layout(4, 4, (Shape(1, 1, ("", "+me")), Shape(2, 2, ("", "+me")), Shape(4, 4)))
"""A30."""
BLACKWELL_GRAPHICS = Layout(
    4,
    4,
    (
        Shape(1, 1, ("", "+gfx", "-me", "+me.all", "+me")),
        Shape(2, 2, ("", "+gfx", "-me", "+me.all")),
        Shape(4, 4, ("", "+gfx")),
    ),
)
"""RTX PRO 6000 Blackwell, whose instances can also do graphics."""


@dataclass(frozen=True, slots=True)
class Match:
    """The profile of a GPU that the name of a profile means."""

    profile: MIGProfile
    """As this GPU calls it."""
    shape: Shape
    most: int
    """The number of them that a GPU has room for."""
    exact: bool
    """True if the name is this GPU's own, and not one that another driver may have given it."""


@dataclass(frozen=True, slots=True)
class Geometry:
    """A GPU's layout and memory.

    Names of profiles carry a rounded size, which follows from the memory that the driver reports, so they differ
    between drivers by a gigabyte or a few: `7g.79gb` is `7g.80gb`, and a GB200 has `3g.93gb` or `3g.95gb`.

    Source: github.com/NVIDIA/go-nvlib pkg/nvlib/device/mig_profile.go getMigMemorySizeGB;
    github.com/NVIDIA/mig-parted deployments/systemd/config-default.yaml.
    """

    memory: int
    """In GiB, rounded up."""
    layout: Layout = AMPERE

    @property
    def matches(self) -> tuple[Match, ...]:
        """All profiles that the GPU has."""
        return _matches(self)

    def match(self, profile: MIGProfile) -> Match | None:
        """The layout of the GPU that a profile means, as exactly as possible; None if nothing is similar.

        Of a compute instance (`1c.3g.20gb`) it is the GPU instance that it is made in, of whose slices it has at most
        half, rounded up.
        """
        if 2 * profile.compute_slices > profile.gpu_slices + 1:
            return None
        whole = replace(profile, compute_slices=0)
        alike = [
            match
            for match in self.matches
            if (match.profile.gpu_slices, match.profile.attributes) == (whole.gpu_slices, whole.attributes)
            # Names differ between drivers by 1 GB, those of large instances by 2 or 3.
            and _difference(match.profile, whole) <= min(1 + match.profile.memory_gb // 64, 3)
        ]
        nearest = min(alike, key=lambda match: _difference(match.profile, whole), default=None)
        return replace(nearest, exact=nearest.profile == whole) if nearest else None


@cache
def _matches(geometry: Geometry) -> tuple[Match, ...]:
    layout = geometry.layout
    return tuple(
        Match(
            MIGProfile(shape.compute_slices, _size(geometry, shape), attribute),
            shape,
            1
            if attribute in ("+me", "+me.all")
            else min(layout.compute_slices // shape.compute_slices, layout.memory_slices // shape.memory_slices),
            exact=True,
        )
        for shape in layout.shapes
        for attribute in shape.attributes
    )


def _size(geometry: Geometry, shape: Shape) -> int:
    """The size in a profile's name: its share of the memory, rounded half up."""
    slices = geometry.layout.memory_slices
    return (2 * geometry.memory * shape.memory_slices + slices) // (2 * slices)


def _difference(profile: MIGProfile, other: MIGProfile) -> int:
    return abs(profile.memory_gb - other.memory_gb)


IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""The prefix under which every DeviceClass is an extended resource if DRAExtendedResource is on (KEP-5004)."""

_MIG = "nvidia.com/mig-"
_SHARED = ".shared"


@dataclass(frozen=True, slots=True)
class GPUResource:
    """An extended resource that stands for GPUs.

    Source: github.com/NVIDIA/k8s-device-plugin api/config/v1 (`gpu`, `mig-<profile>`, suffix `.shared` when
    `renameByDefault` is set).
    """

    name: str
    mig: bool
    profile: MIGProfile | None
    """For MIG resources; None where the name holds no profile that exists in this form."""
    shared: bool


def parse_resource(name: str) -> GPUResource | None:
    """The meaning of a resource name of the device plugin; None for every other resource."""
    return _parse(name) if name.startswith(VENDOR_PREFIX) else None


PASSED_THROUGH = frozenset({"nvidia.com/pgpu", "nvidia.com/nvswitch"})
"""Whole GPUs and NVSwitches for virtual machines. Source: NVIDIA's guide to confidential containers, which says that the
Kata device plugin uses these names unless it is configured to name each model."""
_OF_PCI = re.compile(r"(?=[^A-Z]*[A-Z])[A-Za-z0-9_.-]+")
"""The names of chips and vGPU types have capital letters: `GA107GL_A2`, `NVIDIA_A2-2Q`, `TU104GL_Tesla_T4`."""


def is_for_machines(resource: str) -> bool:
    """True if NVIDIA's device plugins for virtual machines advertise GPUs or vGPUs under a name.

    Source: github.com/NVIDIA/kubevirt-gpu-device-plugin pkg/device_plugin/device_plugin.go getDeviceName.
    """
    if resource in PASSED_THROUGH:
        return True
    return resource.startswith(VENDOR_PREFIX) and bool(_OF_PCI.fullmatch(resource.removeprefix(VENDOR_PREFIX)))


@remember_short(256)
def _parse(name: str) -> GPUResource | None:
    base, shared = (name.removesuffix(_SHARED), True) if name.endswith(_SHARED) else (name, False)
    if base == GPU_RESOURCE:
        return GPUResource(name, mig=False, profile=None, shared=shared)
    if base.startswith(_MIG):
        return GPUResource(name, mig=True, profile=MIGProfile.from_label(base.removeprefix(_MIG)), shared=shared)
    return None


_DOMAIN = VENDOR_PREFIX.removesuffix("/")
_LIKE_DOMAIN = 0.75
"""The minimum likeness of a mistyped domain to `nvidia.com`; `media.com` and other vendors are below it."""
_FORMER = {"alpha.kubernetes.io/nvidia-gpu": "gpu"}
"""Names of GPUs before Kubernetes 1.10; old guides still use them."""
_SLIPS = {
    "gpus": "gpu",
    "gpu.share": "gpu.shared",
    "gpu-shared": "gpu.shared",
    "gpushared": "gpu.shared",
    "gpus.shared": "gpu.shared",
    "shared-gpu": "gpu.shared",
}
_MISSPELT_MIG = re.compile(r"mig-?([1-7])g[.-]?([0-9]{1,3})gb?((?:[.+][a-z.]+)?)")
"""The name of a profile has a plus before its attributes, and that of its resource a dot."""


def is_device_plugin_name(resource: str) -> bool:
    """True if NVIDIA's device plugin can advertise GPUs under this name."""
    parsed = parse_resource(resource)
    return parsed is not None and (not parsed.mig or parsed.profile is not None)


def correct_name(resource: str) -> str | None:
    """The device plugin's name for a misspelt resource; None if the name is correct or unclear.

    The domain may be mistyped (`nvdia.com/gpu`, `nvidia/gpu`) or missing (`gpu`, which the API server refuses), or the
    part behind it mistyped (`nvidia.com/gpus`).
    """
    if is_device_plugin_name(resource):
        return None
    domain, _, name = resource.rpartition("/")
    name = _FORMER.get(resource, name).lower().replace("_", "-")
    name = _SLIPS.get(name, name)
    if name.startswith("mig") and (match := _MISSPELT_MIG.fullmatch(name)):
        slices, memory, rest = match.groups()
        name = f"mig-{slices}g.{memory}gb{rest.replace('+', '.')}"
    if not is_device_plugin_name(VENDOR_PREFIX + name):
        return None
    is_meant = domain in ("", _DOMAIN) or resource in _FORMER or closest(domain, [_DOMAIN], likeness=_LIKE_DOMAIN)
    return VENDOR_PREFIX + name if is_meant else None
