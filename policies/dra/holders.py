"""Holders of devices: the pods, PodGroups or claims for which devices are allocated."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.phrases import format_count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.dra.resource_claims import Claim

__all__ = ["UNUSED", "Holder"]

UNUSED = "which no pod uses"
"""The clause after a claim without pods and PodGroups."""


class Holder(NamedTuple):
    """A pod that holds devices of a device plugin, or a claim that holds devices of DRA."""

    namespace: str
    pods: tuple[str, ...]
    """The names of the pods that use the devices together; empty if no pod does, or a PodGroup."""
    claim: str = ""
    """The name of the ResourceClaim; empty for the device plugin."""
    pod_groups: tuple[str, ...] = ()
    """The names of the PodGroups that the claim is reserved for."""

    @classmethod
    def of_claim(cls, claim: Claim) -> Holder:
        """The holder of the devices of an allocated claim."""
        return cls(
            claim.namespace or "default", claim.consumer_names("pods"), claim.name, claim.consumer_names("podgroups")
        )

    @property
    def is_used(self) -> bool:
        """False for a claim that no pod and no PodGroup uses."""
        return bool(self.pods or self.pod_groups)

    @property
    def words(self) -> str:
        """The holder in sentences: `team-b/train-0`, `claim team-b/gpus, which no pod uses now`."""
        if self.pods:
            return f"{self.namespace}/{_first(self.pods, 'pod')}"
        if self.pod_groups:
            return f"the pods of PodGroup {self.namespace}/{_first(self.pod_groups, 'group')}"
        return f"claim {self.namespace}/{self.claim}, {UNUSED} now"


def _first(names: Sequence[str], noun: str) -> str:
    others = len(names) - 1
    return f"{names[0]} and {format_count(others, f'more {noun}')}" if others else names[0]
