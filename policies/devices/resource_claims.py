"""ResourceClaims and ResourceClaimTemplates in every version of resource.k8s.io, and their holders.

Reading never fails: fields of the wrong type are skipped. The rules of `policies.claims` report them.

Source: k8s.io/api/resource/v1/types.go and v1beta1/types.go. In v1beta1, the fields of an exact request are in the request
itself; v1 has them under `exactly`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import starmap
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from policies.kubernetes.names import format_count, format_list
from policies.kubernetes.objects import (
    FieldPath,
    Object,
    items_at,
    lookup,
    mappings_at,
    name_of,
    namespace_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence


ClaimKind = Literal["ResourceClaim", "ResourceClaimTemplate"]

MOST_DEVICES = 32
"""Devices in the allocation of one claim. Source: k8s.io/api/resource/v1/types.go AllocationResultsMaxSize."""
MOST_ENTRIES = 32
"""Requests, constraints and configs of a claim, selectors of a request, names in a reference. Source: k8s.io/api/resource/v1/
types.go, the constants ending in MaxSize."""


def is_within_lists(path: FieldPath) -> bool:
    """True if lists may be long enough to have the entries on a path; to look at more is unbounded work."""
    return all(step < MOST_ENTRIES for step in path if isinstance(step, int))


@dataclass(frozen=True, eq=False)
class Subrequest:
    """A request for devices of one DeviceClass: exact, or one entry of `firstAvailable`."""

    name: str
    """Its own name; of an exact request, the name of the request."""
    parent: str | None
    """The request that lists it in `firstAvailable`; None for an exact request."""
    path: FieldPath
    """Of the mapping with `deviceClassName`, in the object as it is written."""
    fields: dict[str, Any]

    @cached_property
    def full_name(self) -> str:
        """The name in results and references: `gpu`, or `gpu/large` for an entry of `firstAvailable`."""
        return self.name if self.parent is None else f"{self.parent}/{self.name}"

    @cached_property
    def request_name(self) -> str:
        """The name of the request that it belongs to."""
        return self.name if self.parent is None else self.parent

    @cached_property
    def device_class(self) -> str:
        """The name of the DeviceClass; empty if it is missing."""
        return _text(self.fields, "deviceClassName")

    @property
    def allocation_mode(self) -> str:
        """`ExactCount` or `All`; may be an unsupported value."""
        return self.fields.get("allocationMode") or "ExactCount"

    @cached_property
    def count(self) -> int:
        """The number of devices that `ExactCount` requests; 1 if that is missing."""
        count = self.fields.get("count")
        return count if isinstance(count, int) and not isinstance(count, bool) and count else 1

    @cached_property
    def selectors(self) -> tuple[str | None, ...]:
        """The CEL expressions that devices must match; None for an entry without an expression."""
        return selector_expressions(self.fields)

    @property
    def expressions(self) -> tuple[str, ...]:
        """The CEL expressions that devices must match, without entries that have none."""
        return tuple(text for text in self.selectors if text is not None)

    @cached_property
    def has_admin_access(self) -> bool:
        """True if devices that are in use are requested too; only an exact request can have it."""
        return self.parent is None and self.fields.get("adminAccess") is True

    @property
    def sets_admin_access(self) -> bool:
        """True if the field is set, even to false."""
        return self.parent is None and self.fields.get("adminAccess") is not None

    @cached_property
    def tolerations(self) -> tuple[Object, ...]:
        """The taints of devices that are tolerated."""
        return tuple(mappings_at(self.fields, ("tolerations",)))

    @cached_property
    def capacity(self) -> Mapping[str, Any] | None:
        """The requested amounts by name of the capacity, as they are written; None without `capacity`."""
        capacity = self.fields.get("capacity")
        if not isinstance(capacity, dict):
            return None
        requests = capacity.get("requests")
        return requests if isinstance(requests, dict) else {}


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One entry of `requests`."""

    name: str
    path: FieldPath
    fields: dict[str, Any]
    """As they are written."""
    subrequests: tuple[Subrequest, ...]
    """One for an exact request; the entries of `firstAvailable` in their order; empty if it has neither."""
    is_prioritized: bool
    """True if it has `firstAvailable`, a list of which the first entry that can be met is taken."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The DeviceClasses of its subrequests, each once."""
        return tuple(dict.fromkeys(each.device_class for each in self.subrequests))


@dataclass(frozen=True)
class _Part:
    """An entry of `constraints` or `config`."""

    path: FieldPath
    fields: dict[str, Any]

    @cached_property
    def requests(self) -> tuple[str, ...]:
        """The requests or subrequests that it is for; empty means all."""
        return tuple(name for name in items_at(self.fields, ("requests",)) if isinstance(name, str))

    def covers(self, subrequest: Subrequest) -> bool:
        """True if it is for the devices of a subrequest; the name of a request stands for all its subrequests."""
        names = self.requests
        return not names or subrequest.request_name in names or subrequest.full_name in names


@dataclass(frozen=True)
class Constraint(_Part):
    """One entry of `constraints`."""

    @cached_property
    def match_attribute(self) -> str | None:
        """The attribute that must have the same value on all devices."""
        return _text(self.fields, "matchAttribute") if self.fields.get("matchAttribute") is not None else None

    @cached_property
    def distinct_attribute(self) -> str | None:
        """The attribute that must have another value on each device."""
        return _text(self.fields, "distinctAttribute") if self.fields.get("distinctAttribute") is not None else None

    @property
    def words(self) -> str:
        """The requirement on devices: `the same resource.kubernetes.io/pcieRoot`."""
        same, different = self.match_attribute, self.distinct_attribute
        return f"different {different}" if same is None else f"the same {same}"


@dataclass(frozen=True)
class Config(_Part):
    """One entry of `config`, of a claim or of a DeviceClass."""

    @property
    def driver(self) -> str:
        """The driver that its parameters are for; empty if it is missing."""
        driver = lookup(self.fields, ("opaque", "driver"))
        return driver if isinstance(driver, str) else ""

    @property
    def parameters(self) -> Any:
        """The parameters that the driver reads."""
        return lookup(self.fields, ("opaque", "parameters"))

    @property
    def parameters_path(self) -> FieldPath:
        """The path of `parameters`."""
        return FieldPath((*self.path, "opaque", "parameters"))


DeviceKey = tuple[str, str, str]
"""Driver, pool and name of a device."""


class DeviceStatus(NamedTuple):
    """The status of one allocated device, written by its driver.

    Kubernetes names one condition, `Ready`: false if the device is not configured as the claim and the class say.

    Source: k8s.io/api/resource/v1/types.go AllocatedDeviceStatus.
    """

    driver: str
    pool: str
    device: str
    fields: Object

    @property
    def problem(self) -> str:
        """The reason and the message of the condition `Ready` if the device is not ready; empty if it is."""
        for each in mappings_at(self.fields, ("conditions",)):
            if each.get("type") == "Ready" and each.get("status") == "False":
                texts = (str(each.get(field) or "") for field in ("reason", "message"))
                return ": ".join(text for text in texts if text) or "no reason is given"
        return ""

    @property
    def network(self) -> str:
        """The network interface and its addresses: `eth1 with 10.0.0.5/24`; empty for other devices."""
        data = lookup(self.fields, ("networkData",))
        addresses = [str(each) for each in (*items_at(data, ("ips",)), lookup(data, ("hardwareAddress",))) if each]
        name, address = str(lookup(data, ("interfaceName",)) or ""), format_list(addresses) if addresses else ""
        return f"{name} with {address}" if name and address else name or address


@dataclass(frozen=True, eq=False)
class Claim:
    """A ResourceClaim, or the claim that a ResourceClaimTemplate describes; parts are read when used."""

    document: Object
    """As it is written."""
    kind: ClaimKind = "ResourceClaim"

    @property
    def name(self) -> str:
        """The name of the object."""
        return name_of(self.document)

    @property
    def namespace(self) -> str:
        """The namespace of the object; empty if it is not known."""
        return namespace_of(self.document)

    @property
    def uid(self) -> str:
        """The uid of the object; empty before it is stored."""
        return _text(self.document.get("metadata") or {}, "uid")

    @property
    def version(self) -> str:
        """The version of resource.k8s.io that it is written in; empty if that is missing."""
        return str(self.document.get("apiVersion", "")).rpartition("/")[2]

    @property
    def is_flat(self) -> bool:
        """True for v1beta1, where an exact request has its fields in the request itself."""
        return self.version == "v1beta1"

    @property
    def label(self) -> str:
        """The namespace and name, as Kubernetes' messages have them."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @cached_property
    def devices_path(self) -> FieldPath:
        """The path of the mapping with `requests`, `constraints` and `config`."""
        return FieldPath(("spec", "spec", "devices") if self.kind == "ResourceClaimTemplate" else ("spec", "devices"))

    @cached_property
    def devices(self) -> Any:
        """The mapping with `requests`, `constraints` and `config`, whatever it is."""
        return lookup(self.document, self.devices_path)

    @cached_property
    def requests(self) -> tuple[DeviceRequest, ...]:
        """The requests, in their order."""
        is_flat = self.is_flat
        entries = _entries(self.devices, self.devices_path, "requests")
        return tuple(_request(fields, path, is_flat=is_flat) for path, fields in entries)

    @property
    def subrequests(self) -> Iterator[Subrequest]:
        """The subrequests of all requests."""
        for request in self.requests:
            yield from request.subrequests

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints, in their order."""
        return tuple(starmap(Constraint, _entries(self.devices, self.devices_path, "constraints")))

    @cached_property
    def configs(self) -> tuple[Config, ...]:
        """The configs, in their order."""
        return read_configs(self.devices, self.devices_path)

    @property
    def allocation(self) -> Object | None:
        """The devices that the scheduler allocated (`status.allocation`); None if the claim is not allocated."""
        found = lookup(self.document, ("status", "allocation"))
        return found if isinstance(found, dict) else None

    @property
    def allocated_devices(self) -> list[Object]:
        """The results of the allocation, with `driver`, `pool`, `device` and so on."""
        return mappings_at(self.allocation, ("devices", "results"))

    @property
    def device_keys(self) -> list[DeviceKey]:
        """Driver, pool and name of each allocated device."""
        return [
            (str(each.get("driver")), str(each.get("pool")), str(each.get("device"))) for each in self.allocated_devices
        ]

    @cached_property
    def device_statuses(self) -> tuple[DeviceStatus, ...]:
        """The status that drivers report of allocated devices (`status.devices`)."""
        return tuple(
            DeviceStatus(str(each["driver"]), str(each["pool"]), str(each["device"]), each)
            for each in mappings_at(self.document, ("status", "devices"))
            if all(isinstance(each.get(field), str) for field in ("driver", "pool", "device"))
        )

    @property
    def consumers(self) -> list[Object]:
        """The objects that the claim is reserved for, usually pods, with `resource`, `name` and so on."""
        return mappings_at(self.document, ("status", "reservedFor"))

    def consumer_names(self, resource: str) -> tuple[str, ...]:
        """The names of the consumers of one resource, such as `pods` or `podgroups`."""
        return tuple([str(each.get("name")) for each in self.consumers if each.get("resource") == resource])


def selector_expressions(fields: Any) -> tuple[str | None, ...]:
    """The CEL expressions in a request's or class spec's selectors; None for an entry without one."""
    found: list[str | None] = []
    for item in items_at(fields, ("selectors",)):
        cel = item.get("cel") if isinstance(item, dict) else None
        text = cel.get("expression") if isinstance(cel, dict) else None
        found.append(text if isinstance(text, str) else None)
    return tuple(found)


def read_configs(owner: Any, path: FieldPath) -> tuple[Config, ...]:
    """The entries of `config` in the devices of a claim or in the spec of a DeviceClass.

    Args:
        owner: What has the field `config`, whatever it is.
        path: The path of the owner.
    """
    return tuple(starmap(Config, _entries(owner, path, "config")))


def _request(fields: dict[str, Any], path: FieldPath, *, is_flat: bool) -> DeviceRequest:
    name = str(fields.get("name") or "")
    listed = fields.get("firstAvailable")
    if listed:
        subrequests = tuple(
            Subrequest(str(entry.get("name") or ""), name, path / "firstAvailable" / index, entry)
            for index, entry in enumerate(listed if isinstance(listed, list) else ())
            if isinstance(entry, dict)
        )
        return DeviceRequest(name, path, fields, subrequests, is_prioritized=True)
    exactly = fields if is_flat else fields.get("exactly")
    exact = (
        (Subrequest(name, None, path if is_flat else path / "exactly", exactly),) if isinstance(exactly, dict) else ()
    )
    return DeviceRequest(name, path, fields, exact, is_prioritized=False)


def _entries(owner: Any, path: FieldPath, field: str) -> Iterator[tuple[FieldPath, dict[str, Any]]]:
    for index, entry in enumerate(items_at(owner, (field,))):
        if isinstance(entry, dict):
            yield FieldPath((*path, field, index)), entry


def _text(fields: dict[str, Any], key: str) -> str:
    value = fields.get(key)
    return value if isinstance(value, str) else ""


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
