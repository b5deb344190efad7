"""Converts pods from extended resources to DRA claims for the devices that they would have held.

`convert.convert` converts one pod; `check.check` finds pods that were not converted. docs/conversion.md has the design.
"""
