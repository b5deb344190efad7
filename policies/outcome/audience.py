"""The audience of an explanation, and the names of holders that it may see."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from policies.kubernetes.names import format_count, format_list

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.fleet.cluster_digest import Holding

__all__ = ["EVERYTHING", "OTHER_NAMESPACES", "Audience", "Holders"]

OTHER_NAMESPACES = "pods of other namespaces"
"""The name of a holder that must not be named."""


@dataclass(frozen=True, slots=True)
class Audience:
    """The reader of an explanation."""

    namespace: str = ""
    """The only namespace whose objects are named; empty for all namespaces."""
    sees_nodes: bool = True
    """True if nodes are named."""

    def may_name(self, namespace: str) -> bool:
        """True if objects of a namespace are named."""
        return self.namespace in ("", namespace)

    def nodes(self, names: Sequence[str], most: int) -> str:
        """The names of nodes, at most so many, or their number."""
        return format_list(names, most) if self.sees_nodes else format_count(len(names), "node")


EVERYTHING = Audience()
"""The reader may see every node and every namespace."""


class Holders:
    """The holders of devices, indexed when the first device is looked up."""

    def __init__(self, holding: Sequence[Holding], audience: Audience) -> None:
        self._holding = holding
        self._audience = audience

    def of(self, device: str) -> tuple[str, ...]:
        """The holders of a device, `driver/pool/device`; empty if it is not in use."""
        holding = self._by_device.get(device, ())
        may_name = self._audience.may_name
        return tuple(dict.fromkeys(claim.words if may_name(claim.namespace) else OTHER_NAMESPACES for claim in holding))

    @cached_property
    def _by_device(self) -> Mapping[str, Sequence[Holding]]:
        found: defaultdict[str, list[Holding]] = defaultdict(list)
        for claim in self._holding:
            for device in (*claim.held.devices, *(shared for shared, _ in claim.held.shares)):
                found[device].append(claim)
        return found
