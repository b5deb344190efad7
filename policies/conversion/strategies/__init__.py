"""Strategies: how the pods of a namespace come to their GPUs by DRA, one file each."""

from policies.conversion.strategies.auto import auto
from policies.conversion.strategies.leave import leave
from policies.conversion.strategies.rename import rename
from policies.conversion.strategies.template import template

__all__ = ["STRATEGIES"]

STRATEGIES = {"template": template, "rename": rename, "leave": leave, "auto": auto}
"""By the value of the namespace label `gpu-admission.io/dra-strategy`."""
