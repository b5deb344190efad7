"""Memory slices: the parts of a GPU's memory that a MIG device uses."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.kubernetes.paths import mapping_at, mappings_at

if TYPE_CHECKING:
    from policies.kubernetes.resourceslices import Device

__all__ = ["memory_slices"]

_COUNTER = re.compile(r"memory-slice-([0-9]{1,2})")
_CAPACITY = re.compile(r"memorySlice([0-9]{1,2})")


def memory_slices(device: Device) -> tuple[int, ...]:
    """The sorted numbers of the memory slices that a MIG device uses; empty if unknown.

    A device that the driver creates for a claim names its slices in counters, an existing one in capacities.

    Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/partitions.go and mig.go.
    """
    consumed = mappings_at(device.body, ("consumesCounters",))
    names = [(_COUNTER, name) for each in consumed for name in mapping_at(each, ("counters",))]
    names += [(_CAPACITY, name.rpartition("/")[2]) for name in device.items_of("capacity")]
    found = (pattern.fullmatch(str(name)) for pattern, name in names)
    return tuple(sorted({int(match[1]) for match in found if match}))
