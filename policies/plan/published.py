"""Published: the slices of the DRA driver on a node, and after its GPUs are cut anew."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING

from policies.fleet.offers.published import published_slices
from policies.fleet.offers.state import shown_driver
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup, mappings_at
from policies.nvidia.identifiers import DRIVER
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.fleet.offers import Hardware, NodeState
    from policies.kubernetes.objects import Object
    from policies.view import ClusterView

__all__ = ["gpu_slices_of", "slices_after_cut", "slices_by_node"]


def slices_by_node(view: ClusterView) -> Mapping[str, Sequence[Object]]:
    """The slices with GPUs of NVIDIA's driver by node; call it by `view.derive`."""
    found: defaultdict[str, list[Object]] = defaultdict(list)
    slices = view.list("ResourceSlice")
    for document in () if slices is UNKNOWN else slices:
        node = lookup(document, ("spec", "nodeName"))
        is_of_gpus = lookup(document, ("spec", "driver")) == DRIVER and mappings_at(document, ("spec", "devices"))
        if is_of_gpus and isinstance(node, str):
            found[node].append(document)
    return found


def gpu_slices_of(node: Object, view: ClusterView) -> Sequence[Object]:
    """The slices of NVIDIA's driver for the GPUs of a node."""
    return view.derive(slices_by_node).get(name_of(node), ())


def slices_after_cut(slices: Sequence[Object], hardware: Hardware, state: NodeState) -> list[Object] | str:
    """The slices after the GPUs are cut anew, or why they cannot be predicted, as a clause.

    The driver's feature gates stay as the devices show them.
    """
    devices = [device for document in slices for device in mappings_at(document, ("spec", "devices"))]
    driver = shown_driver(devices)
    if driver is not None and "DynamicMIG" in driver.gates:
        return "the driver publishes partitions of GPUs (DynamicMIG)"
    missing = next((number for number in range(hardware.gpus) if number not in hardware.devices), None)
    if missing is not None and hardware.devices:
        return f"GPU {missing} of the node is not published"
    found = published_slices(hardware, replace(state, driver=driver))
    if isinstance(found, str):
        return found
    first, *others = slices
    changed = [{**first, "spec": {**first["spec"], "devices": [each for part in found for each in part.devices]}}]
    return [*changed, *({**each, "spec": {**each["spec"], "devices": []}} for each in others)]
