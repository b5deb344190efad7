"""Published: the devices of the DRA driver on a node after its GPUs are cut anew."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup, mapping_at, mappings_at
from policies.nvidia.identifiers import DRIVER
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.kubernetes.objects import Object
    from policies.nvidia.mig import MIGProfile
    from policies.plan.hardware import Cut
    from policies.view import ClusterView

__all__ = ["gpu_slices_of", "slices_after_cut", "slices_by_node"]

_NUMBER = re.compile(r"gpu-(\d{1,3})(-mig-.*)?")
_Kind = tuple[str, str]
"""Product and MIG profile of a device; the profile is empty for a whole GPU."""


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


def slices_after_cut(slices: Sequence[Object], cut: Cut, view: ClusterView) -> list[Object] | str:
    """The slices after the GPUs are cut anew, or why they cannot be predicted, as a clause.

    New devices are like others of their product and profile in the cluster. GPUs that are cut as before keep their
    devices.
    """
    old = [device for document in slices for device in mappings_at(document, ("spec", "devices"))]
    if any(lookup(document, ("spec", "sharedCounters")) for document in slices):
        return "the driver publishes partitions of GPUs (DynamicMIG)"
    examples = view.derive(_examples)
    devices: list[Object] = []
    for number, wanted in enumerate(cut.by_gpu):
        own = [device for device in old if _number(device) == number]
        if not own:
            return f"GPU {number} of the node is not published"
        if _counts(own) == _wanted_counts(wanted):
            devices += own
            continue
        made = list(_devices(number, wanted, own[0], examples))
        missing = next((each for each in made if isinstance(each, str)), None)
        if missing is not None:
            return missing
        devices += [each for each in made if not isinstance(each, str)]
    first, *others = slices
    kept = [device for device in old if _number(device) is None]
    changed = [{**first, "spec": {**first["spec"], "devices": [*kept, *devices]}}]
    return [*changed, *({**each, "spec": {**each["spec"], "devices": []}} for each in others)]


def _devices(
    number: int, wanted: Mapping[MIGProfile, int] | None, like: Object, examples: Mapping[_Kind, Object]
) -> Iterator[Object | str]:
    product, uuid = _text(like, "productName"), _text(like, "parentUUID") or _text(like, "uuid")
    if wanted is None:
        example = examples.get((product, ""))
        if example is None:
            yield f"no other node publishes a whole {product}"
            return
        yield _device(f"gpu-{number}", like, example, {"uuid": uuid}, without=("parentUUID", "profile"))
        return
    for profile, count in wanted.items():
        example = examples.get((product, str(profile)))
        if example is None:
            yield f"no node publishes a {profile} of {product} yet"
            return
        name = str(profile).replace(".", "").replace("+", "").replace(",", "")
        for index in range(count):
            own = {"uuid": f"MIG-{uuid}-{name}-{index}", "parentUUID": uuid}
            yield _device(f"gpu-{number}-mig-{name}-{index}", like, example, own)


def _device(name: str, like: Object, example: Object, own: Mapping[str, str], *, without: Iterable[str] = ()) -> Object:
    """A device with the attributes and capacities of an example, on the GPU of another device."""
    attributes = {**mapping_at(example, ("attributes",))}
    attributes |= {key: value for key, value in mapping_at(like, ("attributes",)).items() if "/" in key}
    attributes |= {key: {"string": value} for key, value in own.items()}
    return {
        **{key: value for key, value in example.items() if key not in ("taints", "bindsToNode")},
        "name": name,
        "attributes": {key: value for key, value in attributes.items() if key not in without},
    }


def _examples(view: ClusterView) -> Mapping[_Kind, Object]:
    """A published device of each product and profile."""
    found: dict[_Kind, Object] = {}
    for slices in view.derive(slices_by_node).values():
        for document in slices:
            for device in mappings_at(document, ("spec", "devices")):
                found.setdefault((_text(device, "productName"), _text(device, "profile")), device)
    return found


def _counts(devices: Iterable[Object]) -> dict[str, int]:
    """The devices of one GPU by MIG profile; a whole GPU has the empty one."""
    found: dict[str, int] = {}
    for device in devices:
        profile = _text(device, "profile")
        found[profile] = found.get(profile, 0) + 1
    return found


def _wanted_counts(wanted: Mapping[MIGProfile, int] | None) -> dict[str, int]:
    return {"": 1} if wanted is None else {str(profile): count for profile, count in wanted.items()}


def _number(device: Object) -> int | None:
    match = _NUMBER.fullmatch(str(device.get("name")))
    return int(match[1]) if match else None


def _text(device: Object, attribute: str) -> str:
    found: Any = lookup(device, ("attributes", attribute, "string"))
    return found if isinstance(found, str) else ""
