"""The parts of a claim's spec, as all versions of resource.k8s.io have them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.paths import FieldPath

__all__ = ["Asked", "Config", "Constraint", "Request", "read_requests"]


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked of one DeviceClass: an exact request, or one alternative of a prioritized list."""

    name: str
    """As results and references spell it: `gpu`, or `gpu/large` for an alternative."""
    path: FieldPath
    """Of the mapping with `deviceClassName`."""
    fields: dict[str, Any]

    @property
    def device_class(self) -> str:
        """The name of the class; empty where there is none."""
        name = self.fields.get("deviceClassName")
        return name if isinstance(name, str) else ""

    @property
    def allocation_mode(self) -> str:
        """`ExactCount` or `All`; what is written where it is neither."""
        return self.fields.get("allocationMode") or "ExactCount"

    @property
    def count(self) -> int:
        """How many devices; 1 where nothing is said."""
        count = self.fields.get("count")
        return count if isinstance(count, int) and not isinstance(count, bool) and count else 1

    @property
    def selectors(self) -> tuple[str, ...]:
        """The CEL expressions that devices must match; selectors of another form are left out."""
        items = self.fields.get("selectors")
        texts = (lookup(item, ("cel", "expression")) for item in (items if isinstance(items, list) else ()))
        return tuple(text for text in texts if isinstance(text, str))

    @property
    def admin_access(self) -> bool:
        """Whether devices in use are wanted too."""
        return self.fields.get("adminAccess") is True


@dataclass(frozen=True, slots=True)
class Request:
    """One entry of `requests`."""

    name: str
    path: FieldPath
    fields: dict[str, Any]
    alternatives: tuple[Asked, ...]
    """One for an exact request; the entries of `firstAvailable` otherwise, in order; none where neither is given."""
    prioritized: bool
    """Whether it is a prioritized list."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """One entry of `constraints`."""

    path: FieldPath
    fields: dict[str, Any]

    @property
    def requests(self) -> tuple[str, ...]:
        """The requests that it speaks of; empty means all."""
        return _names(self.fields)


@dataclass(frozen=True, slots=True)
class Config:
    """One entry of `config`."""

    path: FieldPath
    fields: dict[str, Any]

    @property
    def requests(self) -> tuple[str, ...]:
        """The requests that it is for; empty means all."""
        return _names(self.fields)

    @property
    def driver(self) -> str:
        """The driver that its parameters are for; empty where none is named."""
        driver = lookup(self.fields, ("opaque", "driver"))
        return driver if isinstance(driver, str) else ""

    @property
    def parameters(self) -> Any:
        """What the driver gets to read."""
        return lookup(self.fields, ("opaque", "parameters"))

    @property
    def parameters_path(self) -> FieldPath:
        """Where that is."""
        return self.path / "opaque" / "parameters"


def read_requests(document: Any, path: FieldPath, version: str) -> Iterator[Request]:
    """The requests of a claim.

    In v1beta1 the fields of an exact request stand in the request itself.

    Source: k8s.io/api/resource/v1/types.go and v1beta1/types.go.
    """
    for index, item in enumerate(document if isinstance(document, list) else ()):
        if not isinstance(item, dict):
            continue
        name = str(item.get("name") or "")
        here = path / index
        subrequests = item.get("firstAvailable")
        exact = item if version == "v1beta1" else item.get("exactly")
        if subrequests:
            listed = enumerate(subrequests if isinstance(subrequests, list) else ())
            alternatives = tuple(
                Asked(f"{name}/{entry.get('name') or ''}", here / "firstAvailable" / position, entry)
                for position, entry in listed
                if isinstance(entry, dict)
            )
            yield Request(name, here, item, alternatives, prioritized=True)
        elif isinstance(exact, dict):
            asked = Asked(name, here if version == "v1beta1" else here / "exactly", exact)
            yield Request(name, here, item, (asked,), prioritized=False)
        else:
            yield Request(name, here, item, (), prioritized=False)


def _names(fields: dict[str, Any]) -> tuple[str, ...]:
    names = fields.get("requests")
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()
