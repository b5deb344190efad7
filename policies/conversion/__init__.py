"""Converts pods from extended resources to DRA claims, so that they hold the devices they would have held.

`convert` answers for one pod; `check` finds pods that escaped. docs/conversion.md is the page of design.
"""

from policies.conversion.check import check
from policies.conversion.convert import Conversion, convert

__all__ = ["Conversion", "check", "convert"]
