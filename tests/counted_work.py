"""Work whose units tests look at."""

from __future__ import annotations

from policies.kubernetes.bounds import Work


class RecordedWork(Work):
    """Records the units of each step."""

    __slots__ = ("steps",)

    def __init__(self, units=float("inf")):
        super().__init__(units)
        self.steps = []

    def count(self, units):
        super().count(units)
        self.steps.append(units)
