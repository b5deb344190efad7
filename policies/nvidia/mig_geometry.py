"""MIG geometry: which profiles a GPU has, by its memory, and which of them fit on it together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

from policies.nvidia.mig import MIGProfile

__all__ = ["AMPERE", "AMPERE_SMALL", "BLACKWELL_GRAPHICS", "Geometry", "Layout", "Match"]


@dataclass(frozen=True, slots=True)
class Shape:
    """What a GPU instance takes of a GPU, and the attributes in which it comes."""

    compute_slices: int
    memory_slices: int
    attributes: tuple[str, ...] = ("",)


@dataclass(frozen=True, slots=True)
class Layout:
    """How GPUs of one kind are divided, whatever their memory is."""

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
    """How many of them a GPU has room for."""
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
            and _difference(match.profile, whole) <= _tolerance(match.profile)
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
            1 if attribute in ("+me", "+me.all") else _most(layout, shape),
            exact=True,
        )
        for shape in layout.shapes
        for attribute in shape.attributes
    )


def _size(geometry: Geometry, shape: Shape) -> int:
    """The size in a profile's name: its share of the memory, rounded half up."""
    slices = geometry.layout.memory_slices
    return (2 * geometry.memory * shape.memory_slices + slices) // (2 * slices)


def _most(layout: Layout, shape: Shape) -> int:
    return min(layout.compute_slices // shape.compute_slices, layout.memory_slices // shape.memory_slices)


def _difference(profile: MIGProfile, other: MIGProfile) -> int:
    return abs(profile.memory_gb - other.memory_gb)


def _tolerance(profile: MIGProfile) -> int:
    """By how many gigabytes the name of a profile differs between drivers: 1, for large instances 2 or 3."""
    return min(1 + profile.memory_gb // 64, 3)
