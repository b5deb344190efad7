"""Allocatable devices: what keeps published devices from being allocated, other than the node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.allocation.counters import CounterLedger
from policies.dra.allocation.errors import AllocationError
from policies.dra.allocation.features import DEFAULTS
from policies.dra.allocation.node_selectors import TargetNode
from policies.dra.allocation.pools import PoolGatherer, PoolState
from policies.dra.allocation.taints import first_untolerated
from policies.kubernetes.objects import name_of
from policies.kubernetes.taints import Taint
from policies.nvidia.identifiers import DRIVER
from policies.usage.node_gpus import UnusableKind, UnusableReason
from policies.work import count_work

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.dra.allocation.pools import Pool
    from policies.dra.allocation.slices import AllocatableDevice
    from policies.fleet.cluster_digest import Cluster

__all__ = ["AllocatableDevices"]

_POOLS = {
    PoolState.INCOMPLETE: "the driver has not published all slices of its pool",
    PoolState.INVALID: "the slices of its pool contradict each other",
    PoolState.OBSOLETE: "the driver is publishing a newer generation of its pool",
}
_FRAGMENT = UnusableReason(
    UnusableKind.FRAGMENTED, "what is left of a divided GPU is too small for every MIG device that the driver publishes"
)
_WORK_PER_NODE = 100
_ORDER = (UnusableKind.POOL, UnusableKind.DEVICE_TAINTED, UnusableKind.FRAGMENTED)


class AllocatableDevices:
    """Judges the devices of NVIDIA's driver, node by node."""

    def __init__(self, cluster: Cluster) -> None:
        """Keep the cluster. If its slices cannot be read, nothing is judged."""
        self._cluster = cluster
        self._gatherer = None if cluster.index is None else PoolGatherer(cluster.index, DEFAULTS)
        self._documents = {name_of(node): node for node in cluster.nodes}
        self._ledger = CounterLedger(cluster.usage)
        self._node = ""
        self._pools: dict[str, Pool] = {}
        self._devices: dict[tuple[str, str], AllocatableDevice] = {}
        self._problem = ""

    def unusable_reason(self, node: str, devices: Iterable[tuple[str, str]]) -> UnusableReason | None:
        """The reason why no device of a GPU can be allocated any more; None if one can.

        Args:
            node: The name of its node. Devices that several nodes reach are not judged.
            devices: Pool and name of each device that the driver publishes of the GPU. At least one is not held.
        """
        if self._gatherer is None or not node:
            return None
        if node != self._node:
            self._gather_devices(node)
        if self._problem:
            return UnusableReason(UnusableKind.POOL, self._problem)
        found: list[UnusableReason] = []
        for pool, name in devices:
            reason = self._device_reason(pool, name)
            if reason is None:
                return None
            found.append(reason)
        return min(found, key=lambda each: _ORDER.index(each.kind))

    def _gather_devices(self, node: str) -> None:
        count_work(_WORK_PER_NODE)
        self._node, self._problem, self._pools, self._devices = node, "", {}, {}
        document = self._documents.get(node, {"metadata": {"name": node}})
        try:
            pools = [] if self._gatherer is None else self._gatherer.gather(TargetNode(document))
            own = [pool for pool in pools if pool.id[0] == DRIVER]
            self._pools = {pool.id[1]: pool for pool in own}
            self._devices = {
                (pool.id[1], device.name): device for pool in own for found in pool.slices for device in found.devices
            }
        except AllocationError as error:
            self._problem = str(error)

    def _device_reason(self, name: str, device_name: str) -> UnusableReason | None:
        pool, device = self._pools.get(name), self._devices.get((name, device_name))
        if pool is None or device is None:
            state = PoolState.INCOMPLETE if pool is None else pool.state
            return UnusableReason(UnusableKind.POOL, _POOLS.get(state, _POOLS[PoolState.INCOMPLETE]))
        taint = first_untolerated(device.taints, ())
        if taint is not None:
            spelled = Taint(str(taint.get("key") or ""), str(taint.get("value") or ""), str(taint.get("effect")))
            return UnusableReason(UnusableKind.DEVICE_TAINTED, f"the device has the taint {spelled}")
        if device.id in self._cluster.usage.devices or self._ledger.take(device, pool) is not None:
            return _FRAGMENT
        self._ledger.give_back(device, pool)
        return None
