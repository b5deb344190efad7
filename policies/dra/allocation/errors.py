"""How an allocation can fail other than by finding no devices."""

from __future__ import annotations

__all__ = ["AllocationError", "InvalidPoolsError", "SearchBudgetExceeded"]


class AllocationError(Exception):
    """The allocation cannot be computed, in the words that Kubernetes' scheduler uses for it.

    It stops the scheduling of the pod on every node, not only on the node at hand.
    """


class InvalidPoolsError(AllocationError):
    """No devices were found, and some pool could not be looked into because it is invalid.

    Unlike its parent, it rules out this node only.
    """

    def __init__(self) -> None:
        super().__init__("invalid resource pools were encountered")


class SearchBudgetExceeded(AllocationError):  # noqa: N818 - it is what its name says; callers catch it by that name
    """The search for devices was given up, so whether the claims fit this node is unknown."""

    def __init__(self, steps: int, node: str) -> None:
        """Describe a search that ended after a number of steps on a node."""
        self.steps = steps
        super().__init__(
            f"gave up after {steps:,} search steps without knowing whether the claims fit node {node}: too many "
            f"combinations of devices nearly satisfy them. Kubernetes tries them all until its scheduler times out "
            f"after 10 seconds. Request fewer devices, narrow the selectors, or drop constraints that "
            f"few devices satisfy together."
        )
