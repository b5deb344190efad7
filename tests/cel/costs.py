"""What evaluations cost in Kubernetes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cel import CelDevice

if TYPE_CHECKING:
    from policies.cel import Selector


def actual_cost(selector: Selector, device: CelDevice | dict[str, object]) -> int:
    """The cost of evaluating a selector on a device, whether it fails or not."""
    ready = device if isinstance(device, CelDevice) else CelDevice.read(device)
    _, cost = selector.counted_program.evaluate(ready)
    return cost
