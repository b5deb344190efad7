"""Device selectors of DRA: CEL exactly as Kubernetes evaluates it.

`compile_selector` makes a Selector of a text; `Selector.matches` asks it about a device.
"""

from __future__ import annotations

from policies.dra.cel.devices import CelDevice
from policies.dra.cel.environment import Features
from policies.dra.cel.errors import CelCompileError, CelRuntimeError
from policies.dra.cel.selectors import MOST_COST, UNBOUNDED_COST, Selector, compile_selector

__all__ = [
    "MOST_COST",
    "UNBOUNDED_COST",
    "CelCompileError",
    "CelDevice",
    "CelRuntimeError",
    "Features",
    "Selector",
    "compile_selector",
]
