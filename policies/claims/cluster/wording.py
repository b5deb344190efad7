"""How messages name devices and places of devices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.devices.published_devices import device_count
from policies.kubernetes.phrases import printable
from policies.rules.decision import Place as TextPlace

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.claims.cluster.absence import Place
    from policies.claims.subject import SelectorText
    from policies.devices.published_devices import DeviceGroup

__all__ = ["cut", "devices", "format_devices", "path_of", "text_place", "verb_of_lack", "what"]

_LONGEST = 80


def devices(count: int) -> str:
    """A number of devices."""
    return "1 device" if count == 1 else f"{count} devices"


def format_devices(groups: Sequence[DeviceGroup]) -> str:
    """Some devices: the first by name, the others by number."""
    count = device_count(groups)
    first = groups[0].first.label
    return first if count == 1 else f"{first} and {count - 1} more"


def verb_of_lack(groups: Sequence[DeviceGroup]) -> str:
    """The verb for what `format_devices` names."""
    return "lacks" if device_count(groups) == 1 else "lack"


def what(place: Place) -> str:
    """An attribute or capacity, by the name that slices have it under."""
    part, domain, name = place
    return f"{'attribute' if part == 'attributes' else 'capacity'} {printable(domain)}/{printable(name)}"


def path_of(part: str, domain: str) -> str:
    """The map of a domain, as a selector writes it."""
    return f'device.{part}["{domain}"]'


def cut(text: str) -> str:
    """An expression on one line, cut where it is long."""
    line = " ".join(printable(text).split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def text_place(selector: SelectorText, offset: int) -> TextPlace:
    """The place in an expression, by line and column."""
    before = selector.text[:offset]
    return TextPlace(selector.path, before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)
