"""Devices as selectors see them, read once from a ResourceSlice.

Source: k8s.io/dynamic-resource-allocation/cel/compile.go, DeviceMatches and newStringInterfaceMapWithDefault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.cel.errors import CelRuntimeError
from policies.cel.libraries.quantities import Quantity
from policies.cel.libraries.semvers import Semver
from policies.cel.values import ABSENT, Absent, Map
from policies.kubernetes.bounds import remember_short
from policies.kubernetes.quantities import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.cel.values import Value


_KEPT_TEXTS = 1024
"""Versions and quantities that are not read again: a cluster has thousands of devices, and few kinds of them."""

_LONGEST_VALUE = 64
_LONGEST_DOMAIN = 63
_LONGEST_ID = 32
_MOST_ITEMS = 32
_MOST_ELEMENTS = 64
"""Limits of resource.k8s.io that static costs count on; for elements what the estimate takes, the API allows 48."""


class StringMap(Map):
    """A map that only strings are keys of."""

    __slots__ = ()

    def find(self, key: Value) -> Value | Absent:
        """The value under a key, or ABSENT."""
        return self._entries.get(key, ABSENT) if key.__class__ is str else ABSENT

    def __contains__(self, key: Value) -> bool:
        """True if `key in map` is true."""
        return key.__class__ is str and key in self._entries


_EMPTY = StringMap({})


class DomainMap(StringMap):
    """A map by domains: looking up an unknown domain finds an empty map, but `in` is false for it."""

    __slots__ = ()

    go_type = "cel.mapper"

    def find(self, key: Value) -> Value | Absent:
        """The map of a domain, an empty one for any other key."""
        return self._entries.get(key, _EMPTY) if key.__class__ is str else _EMPTY


class DeviceMap(StringMap):
    """The value of the variable `device`."""

    __slots__ = ()

    go_type = "map[string]interface {}"


WHOLE = "*"
"""The name of all that is visible of a device."""

CONDITION = "condition"
"""The name of what is unusual about a device: problems, and being beyond limits; None for most."""


class Visible(dict[str, object]):
    """The parts of a device by their names: `driver`, `attributes/gpu.nvidia.com/type`.

    A part that is not there is None. `attributes/gpu.nvidia.com/*` is all that a domain has, `attributes/*` and `*`
    are wider, and `attributes/gpu.nvidia.com/` is whether the domain has anything.
    """

    __slots__ = ()

    def __missing__(self, part: str) -> object:
        """The value of several parts together."""
        if part.endswith("*"):
            return frozenset((name, value) for name, value in self.items() if name.startswith(part[:-1]))
        return any(name.startswith(part) for name in self) if part.endswith("/") else None


@dataclass(frozen=True, slots=True, eq=False)
class CelDevice:
    """A device as selectors see it. Reading one costs more than matching it, so read it once."""

    value: DeviceMap
    """The value of the variable `device`."""
    driver: str
    attributes: Mapping[str, Mapping[object, Value]]
    """By domain and name."""
    capacity: Mapping[str, Mapping[object, Value]]
    visible: Visible
    """The values that expressions can read of the device."""
    keeps_limits: bool
    """True if it is within the limits of the API, which static costs count on."""
    problem: str | None = None
    """The reason why no selector can be evaluated on it."""
    lists_problem: str | None = None
    """The same for a cluster whose attributes cannot be lists."""

    @staticmethod
    def read(device: Mapping[str, object]) -> CelDevice:
        """Read a device in the JSON form of a ResourceSlice, with its `driver` added.

        What the API server would not have stored is kept as a problem, which evaluation raises.

        Raises:
            CelRuntimeError: it is not a mapping.
        """
        if not isinstance(device, Mapping):
            raise CelRuntimeError(f"a device is a mapping, and this is {type(device).__name__}")
        driver = device.get("driver")
        return _Reader(driver if isinstance(driver, str) else "").read(device)


class _Reader:
    """Collects what one device has."""

    def __init__(self, driver: str) -> None:
        self.driver = driver
        self.keeps_limits = len(driver) <= _LONGEST_DOMAIN
        self.visible = Visible()
        self.problem: str | None = None
        self.lists_problem: str | None = None

    def read(self, device: Mapping[str, object]) -> CelDevice:
        attributes = self._by_domain(_mapping(device.get("attributes")), self._attribute, "attributes")
        capacity = self._by_domain(_mapping(device.get("capacity")), _read_capacity, "capacity")
        if sum(map(len, attributes.values())) + sum(map(len, capacity.values())) > _MOST_ITEMS:
            self.keeps_limits = False
        value = DeviceMap(
            {
                "driver": self.driver,
                "allowMultipleAllocations": device.get("allowMultipleAllocations") is True,
                "attributes": _domains(attributes),
                "capacity": _domains(capacity),
            }
        )
        lists_problem = self.problem or self.lists_problem
        is_usual = self.keeps_limits and lists_problem is None
        self.visible[CONDITION] = None if is_usual else (self.keeps_limits, self.problem, lists_problem)
        self.visible["driver"] = self.driver
        self.visible["allowMultipleAllocations"] = device.get("allowMultipleAllocations") is True
        return CelDevice(
            value, self.driver, attributes, capacity, self.visible, self.keeps_limits, self.problem, lists_problem
        )

    def _by_domain(
        self, items: Mapping[str, object], read: Callable[[str, Mapping[str, object]], Value], what: str
    ) -> dict[str, dict[object, Value]]:
        domains: dict[str, dict[object, Value]] = {}
        for name, item in items.items():
            domain, slash, id_ = name.partition("/")
            if not slash:
                domain, id_ = self.driver, name
            if len(domain) > _LONGEST_DOMAIN or len(id_) > _LONGEST_ID:
                self.keeps_limits = False
            self.visible[f"{what}/{domain}/{id_}"] = _told_by(item)
            try:
                domains.setdefault(domain, {})[id_] = read(name, _mapping(item))
            except CelRuntimeError as error:
                self.problem = self.problem or f"{_SINGULAR[what]} {name}: {error.message}"
        return domains

    def _attribute(self, name: str, item: Mapping[str, object]) -> Value:
        if not _LIST_KINDS.isdisjoint(item):
            for kind in _LIST_ORDER:
                elements = item.get(kind)
                if isinstance(elements, list):
                    if not any(item.get(scalar) is not None for scalar in ("int", "bool", "string", "version")):
                        self.lists_problem = self.lists_problem or f"attribute {name}: {_UNSUPPORTED}"
                    if len(elements) > _MOST_ELEMENTS:
                        self.keeps_limits = False
                    return tuple([self._scalar({kind.removesuffix("s"): element}) for element in elements])
        return self._scalar(item)

    def _scalar(self, item: Mapping[str, object]) -> Value:
        number = item.get("int")
        if isinstance(number, int) and not isinstance(number, bool) and INT64_MIN <= number <= INT64_MAX:
            return number
        flag = item.get("bool")
        if isinstance(flag, bool):
            return flag
        text = item.get("string")
        if isinstance(text, str):
            if len(text) > _LONGEST_VALUE:
                self.keeps_limits = False
            return text
        version = item.get("version")
        if isinstance(version, str):
            return _version(version)
        raise CelRuntimeError(_UNSUPPORTED)


_LIST_ORDER = ("ints", "bools", "strings", "versions")
_LIST_KINDS = frozenset(_LIST_ORDER)
_UNSUPPORTED = "unsupported attribute value"
_SINGULAR = {"attributes": "attribute", "capacity": "capacity"}


def _told_by(item: object) -> object:
    """An item of JSON as something that can be hashed; texts and numbers, which are most, as they are."""
    if isinstance(item, dict) and len(item) == 1:
        ((kind, value),) = item.items()
        if kind in ("string", "value") and isinstance(value, str):
            return value
        if isinstance(value, str | bool | int):
            return (kind, value)
    return repr(item)


def _read_capacity(_: str, item: Mapping[str, object]) -> Quantity:
    amount = item.get("value")
    return _quantity(amount if isinstance(amount, str) else str(amount))


@remember_short(_KEPT_TEXTS)
def _quantity(text: str) -> Quantity:
    return Quantity.read(text)


@remember_short(_KEPT_TEXTS)
def _version(text: str) -> Semver:
    try:
        return Semver.read(text)
    except CelRuntimeError as error:
        raise CelRuntimeError(f"parse semantic version: {error.message}") from error


def _domains(items: Mapping[str, dict[object, Value]]) -> DomainMap:
    return DomainMap({domain: StringMap(entries) for domain, entries in items.items()})


def _mapping(found: object) -> Mapping[str, object]:
    return found if isinstance(found, dict) else {}
