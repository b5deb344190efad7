"""DeviceClasses: those of NVIDIA's driver, their selectors and extended resources, and slips in names."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from policies.devices.resource_claims import read_configs, selector_expressions
from policies.kubernetes.names import printable
from policies.kubernetes.objects import FieldPath, lookup, name_of
from policies.nvidia.identifiers import CHANNEL_CLASS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.devices.resource_claims import Config
    from policies.kubernetes.objects import Object


GPU_CLASS = "gpu.nvidia.com"
MIG_CLASS = "mig.nvidia.com"

SHIPPED_TYPES = {
    GPU_CLASS: "gpu",
    MIG_CLASS: "mig",
    "vfio.gpu.nvidia.com": "vfio",
    CHANNEL_CLASS: "channel",
    "compute-domain-daemon.nvidia.com": "daemon",
}
"""The classes that NVIDIA's driver ships, and the type of their devices."""

TYPES = frozenset({*SHIPPED_TYPES.values(), "other"})
"""The types of devices: the values of NVIDIA's attribute `type`, and `other` for devices of other drivers."""

CREATED_LAST = "9999-12-31T23:59:59Z"
"""The `creationTimestamp` of a class that is created after all others, also after those without one."""
_NOT_STORED = "9999"
"""Sorts after every real timestamp, and before `CREATED_LAST`."""

_MOST_EDITS = 2
_LONGEST = 253
"""Characters of the name of a class."""
_LISTED = 5
_INTERNAL = "compute-domain-"
"""Prefix of NVIDIA's classes that ComputeDomains request, and users do not."""


@dataclass(frozen=True, eq=False)
class DeviceClass:
    """A DeviceClass, parts of which are read when used."""

    document: Object

    @property
    def name(self) -> str:
        """The name of the object."""
        return name_of(self.document)

    @cached_property
    def selectors(self) -> tuple[str | None, ...]:
        """The CEL expressions that its devices match; None for an entry without an expression."""
        return selector_expressions(self.document.get("spec"))

    @cached_property
    def configs(self) -> tuple[Config, ...]:
        """The configs for all devices of the class."""
        return read_configs(self.document.get("spec"), FieldPath(("spec",)))


def selector_texts(device_class: Object) -> tuple[str, ...] | None:
    """The CEL expressions of a class, all of which its devices match; None if they are malformed."""
    spec = device_class.get("spec")
    if not isinstance(lookup(spec, ("selectors",)), list | None):
        return None
    texts = selector_expressions(spec)
    known = tuple(text for text in texts if text is not None)
    return known if len(known) == len(texts) else None


def extended_resource_name(device_class: Object) -> str | None:
    """The extended resource that the class stands for if DRAExtendedResource is on (KEP-5004), if any."""
    name = lookup(device_class, ("spec", "extendedResourceName"))
    return name if isinstance(name, str) else None


def newest_first(classes: Iterable[Object]) -> list[Object]:
    """DeviceClasses, the newest first, and equally old ones by name.

    Of several with one `extendedResourceName`, the first counts. A class without `creationTimestamp` is probably not stored
    yet, so it is newer than the others; only one with `CREATED_LAST` is newer.

    Source: k8s.io/dynamic-resource-allocation deviceclass/extendedresourcecache updateResourceName2class; KEP-5004.
    """
    return sorted(sorted(classes, key=name_of), key=_creation_time, reverse=True)


def _creation_time(device_class: Object) -> str:
    return str(lookup(device_class, ("metadata", "creationTimestamp")) or _NOT_STORED)


def class_meant(name: str, known: Iterable[str]) -> str | None:
    """The class that was probably meant: it differs by at most two letters and has the same vendor.

    The domain is compared separately: `gpu.amd.com` is not a slip for `gpu.nvidia.com`.
    """
    near = [(edits, each) for each in known if (edits := _edits_between(name, each)) is not None]
    return min(near)[1] if near else None


def class_remedy(name: str, known: Iterable[str], *, before: str = "", after: str = "") -> str:
    """The remedy for a class that does not exist: the class that was meant, or the ones that exist.

    Args:
        name: The class.
        known: The classes that exist.
        before: The text before the name of a class at this place.
        after: The text behind it.
    """
    existing = list(known)
    if meant := class_meant(name, existing):
        return f'write "{before}{meant}{after}"'
    install = "install the driver that brings it"
    names = sorted(printable(each) for each in existing if not each.startswith(_INTERNAL))
    if not names:
        return install
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"{install}, or write the name of a class that exists: {', '.join(names[:_LISTED])}{more}"


def _edits_between(name: str, known: str) -> int | None:
    """The number of slips between two names; None for too many."""
    if max(len(name), len(known)) > _LONGEST:
        return None
    (own, _, domain), (known_own, _, known_domain) = name.lower().partition("."), known.lower().partition(".")
    slips = _slips(own, known_own, most=len(known_own) // 3)
    # A short domain that differs is another vendor's.
    more = _slips(domain, known_domain, most=len(known_domain) // 5)
    if slips is None or more is None or slips + more > _MOST_EDITS:
        return None
    return slips + more


def _slips(text: str, known: str, most: int) -> int | None:
    """Letters too many, too few, wrong or swapped; None for more than `most`, or more than two."""
    if text == known:
        return 0
    most = min(most, _MOST_EDITS)
    if abs(len(text) - len(known)) > most:
        return None
    before: list[int] = []
    row = list(range(len(known) + 1))
    for index, letter in enumerate(text):
        earlier, before, row = before, row, [index + 1]
        for place, other in enumerate(known):
            least = min(before[place + 1] + 1, row[place] + 1, before[place] + (letter != other))
            swapped = index and place and letter == known[place - 1] and other == text[index - 1]
            row.append(min(least, earlier[place - 1] + 1) if swapped else least)
        if min(*before, *row) > most:
            return None
    return row[-1] if row[-1] <= most else None
