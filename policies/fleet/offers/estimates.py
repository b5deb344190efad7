"""Estimates: sizes that are not known exactly, and the hardware at both ends of what is possible."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.phrases import format_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policies.fleet.offers.hardware import Hardware
    from policies.fleet.offers.state import NodeState
    from policies.nvidia.mig import MIGProfile
    from policies.nvidia.mig_sizes import MIGSize

__all__ = ["MemoryEstimate", "estimated_sizes", "estimates_clause", "possible_hardware"]


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """The memory of MIG devices of one profile, in MiB."""

    profile: str
    memory: int
    least: int
    """The least that is possible."""
    most: int
    """The most that is possible."""

    @classmethod
    def of(cls, sizes: Mapping[MIGProfile, MIGSize]) -> tuple[MemoryEstimate, ...]:
        """The estimates among sizes."""
        return tuple(
            cls(str(profile), size.memory, *size.bounds)
            for profile, size in sizes.items()
            if size.memory is not None and size.bounds is not None
        )

    def __str__(self) -> str:
        """`MIG 1g.10gb (8.6 to 10 GiB)`."""
        least, most = (f"{amount / 1024:.1f}".removesuffix(".0") for amount in (self.least, self.most))
        return f"MIG {self.profile} ({least} to {most} GiB)"


def estimated_sizes(hardware: Hardware, state: NodeState) -> Mapping[MIGProfile, MIGSize]:
    """The MIG devices of a state whose memory is estimated, because no GPU shows it.

    With DynamicMIG that can be every partition of a GPU.
    """
    profiles = set(state.cut.devices)
    if state.driver is not None and "DynamicMIG" in state.driver.gates and hardware.mig is not None:
        profiles |= {match.profile for match in hardware.mig.geometries[0].matches}
    sizes = {profile: hardware.size(profile) for profile in sorted(profiles)}
    return {profile: size for profile, size in sizes.items() if size.bounds is not None}


def possible_hardware(hardware: Hardware, sizes: Mapping[MIGProfile, MIGSize]) -> tuple[Hardware, ...]:
    """The hardware with the least, and with the most memory that is possible; nothing without estimates."""
    ends = ({profile: size.bounds[end] for profile, size in sizes.items() if size.bounds} for end in (0, 1))
    return tuple(hardware.with_memory(memory) for memory in ends) if sizes else ()


def estimates_clause(estimates: Iterable[MemoryEstimate]) -> str:
    """What is estimated; empty if nothing is."""
    found = sorted(set(map(str, estimates)))
    return f"the memory of {format_list(found, 3)} is estimated" if found else ""
