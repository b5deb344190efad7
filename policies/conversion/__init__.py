"""Converts pods from extended resources to DRA claims, so that they hold the devices they would have held.

`convert.convert` answers for one pod; `check.check` finds pods that escaped. docs/conversion.md is the page of design.
"""
