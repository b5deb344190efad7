"""mig-parted: its errors for entries of a MIG configuration, and the GPUs of a node after it has run.

Source: github.com/NVIDIA/mig-parted api/spec/v1/spec.go, pkg/types, pkg/mig/config, cmd/nvidia-mig-parted (v0.15.0);
github.com/NVIDIA/go-nvlib pkg/nvlib/device/mig_profile.go.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from policies.nvidia.identifiers import PRODUCT_LABEL
from policies.nvidia.mig import MIGProfile
from policies.nvidia.mig_configs import is_count
from policies.nvidia.mig_layouts import MOST_GPUS, excess
from policies.nvidia.mig_products import PRODUCTS, device_ids, gpu_count, is_capable, node_product
from policies.nvidia.products import Product

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from policies.nvidia.mig import Geometry
    from policies.nvidia.mig_configs import Entry


ENTRY_FIELDS = ("device-filter", "devices", "mig-enabled", "mig-devices")
_MOST_ENTRIES = 64
_INVALID = "error validating values in 'mig-devices' field"


class EntryError(NamedTuple):
    """An error for which mig-parted cannot read an entry, and with it the whole file."""

    steps: tuple[str | int, ...]
    """The path below the entry."""
    text: str
    """The error as a predicate: `has no devices`."""
    words: str
    """The error that mig-parted reports."""
    of_key: bool = False
    """True if it is about the key that ends the path, and not about its value."""


def entry_errors(fields: Mapping[str, Any]) -> Iterator[EntryError]:
    """All errors of an entry; mig-parted reports one of them, which depends on the order of a Go map."""
    for name in fields:
        if name not in ENTRY_FIELDS:
            yield EntryError((name,), "is unknown", f"unexpected field: {name}", of_key=True)
    for name in ("devices", "mig-enabled"):
        if name not in fields:
            yield EntryError((), f"has no {name}", f"missing required field: {name}")
    yield from _list_errors("device-filter", fields.get("device-filter"))
    if "devices" in fields:
        devices = fields["devices"]
        if (devices is None or isinstance(devices, str)) and devices != "all":
            text = "is empty" if devices is None else f'is "{devices}"'
            yield EntryError(("devices",), text, f"invalid string input for 'devices': {devices or ''}")
        yield from _list_errors("devices", devices)
    enabled = fields.get("mig-enabled")
    if enabled is not None and not isinstance(enabled, bool):
        yield EntryError(("mig-enabled",), f"is {_text(enabled)}, not a boolean", _unreadable(enabled, "bool"))
    yield from _mig_device_errors(fields)


def _list_errors(name: Literal["device-filter", "devices"], value: Any) -> Iterator[EntryError]:
    """The errors of a field that is a string or a list; an empty item is read as an empty string or 0."""
    if value is None or isinstance(value, str):
        return
    of_numbers = name == "devices"
    kind, as_string = "int" if of_numbers else "string", _unreadable(value, "string")
    if not isinstance(value, list):
        text = f"is {_text(value)}, not a {'list' if of_numbers else 'string'}"
        yield EntryError((name,), text, f"({as_string}, {_unreadable(value, f'[]{kind}')})")
        return
    for index, item in enumerate(value):
        if item is not None and not (is_count(item) if of_numbers else isinstance(item, str)):
            text = f"is {_text(item)}, not a {'whole number' if of_numbers else 'string'}"
            yield EntryError((name, index), text, f"({as_string}, {_unreadable(item, kind)})")


def _mig_device_errors(fields: Mapping[str, Any]) -> Iterator[EntryError]:
    value, steps = fields.get("mig-devices"), ("mig-devices",)
    if value is None:
        if fields.get("mig-enabled") is True:
            yield EntryError(steps, "is missing", "missing required field 'mig-devices' when 'mig-enabled' is true")
        return
    if not isinstance(value, dict):
        words = _unreadable(value, "types.MigConfig")
        yield EntryError(steps, f"is {_text(value)}, not a mapping of profiles to numbers", words)
        return
    if value and fields.get("mig-enabled", True) in (False, None):
        words = "MIG devices included when 'mig-enabled' is false"
        yield EntryError(steps, "is not empty", words, of_key=True)
    for name, count in value.items():
        if invalid := _format_error(name):
            said = f"{_INVALID}: invalid format for '{name}': {invalid}"
            yield EntryError((*steps, name), "is not a MIG profile", said, of_key=True)
        if count is not None and not is_count(count):
            said = _unreadable(count, "int", f"MigConfig.{name}")
            yield EntryError((*steps, name), f"is {_text(count)}, not a whole number", said)
        elif count is not None and count < 0:
            said = f"{_INVALID}: invalid count for '{int(count)}': <nil>"
            yield EntryError((*steps, name), f"is {count}", said)
    if value and not any(count is not None and (not is_count(count) or count) for count in value.values()):
        said = f"{_INVALID}: all counts for all MigProfiles are 0"
        yield EntryError(steps, "has no count above 0", said, of_key=True)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _unreadable(value: Any, kind: str, of: str = "") -> str:
    """The error of Go's encoding/json for a value that is not of a type."""
    named = {bool: "bool", str: "string", list: "array", dict: "object"}.get(type(value), "number")
    if named == "number" and kind == "int":
        named = f"number {json.dumps(value)}"
    return f"json: cannot unmarshal {named} into Go {f'struct field {of}' if of else 'value'} of type {kind}"


def _format_error(profile: str) -> str | None:
    """The error of a text that does not have the form of a MIG profile; None if it has.

    A GPU with the profile need not exist.
    """
    if not profile:
        return "profile is the empty string"
    size, plus, attributes = profile.partition("+")
    if not plus:
        size, plus, attributes = profile.partition("-")
    elif "-" in profile:
        return f"profile '{profile}' contains both '+/-' attributes"
    fields = size.split(".", 2)
    units = {3: ("c", "g", "gb"), 2: ("g", "gb")}.get(len(fields))
    words: str | None = "parsed wrong number of fields, expected 2 or 3" if units is None else None
    for text, unit in zip(fields, units or (), strict=False):
        words = words or _number_error(text, unit)
    if words:
        return f"cannot parse fields of '{profile}': {words}"
    invalid = _attributes_error(attributes) if plus else None
    return f"cannot parse attributes of '{profile}': {invalid}" if invalid else None


def _number_error(text: str, unit: str) -> str | None:
    if text.strip() != text:
        return f"leading or trailing spaces on '%d{unit}'"
    if not text.endswith(unit):
        return f"missing '{unit}' from '%d{unit}'"
    number = text.removesuffix(unit)
    is_number = re.fullmatch(r"[0-9]+", number) and int(number) < 2**63
    return None if is_number else f"malformed number in '%d{unit}'"


def _attributes_error(text: str) -> str | None:
    seen: set[str] = set()
    for attribute in text.split(","):
        if attribute in seen:
            return "non unique attribute in list"
        seen.add(attribute)
        if not attribute:
            return "empty attribute in list"
        if attribute.strip() != attribute:
            return "leading or trailing spaces in attribute"
        if attribute[0] in "0123456789":
            return "attribute begins with a number"
        if attribute[0] == "." or attribute[-1] == ".":
            return "attribute begins/ends with a dot"
        if not re.fullmatch(r"[A-Za-z0-9.]+", attribute):
            return "non alpha-numeric character or digit in attribute"
    return None


@dataclass(frozen=True, slots=True)
class GPUModel:
    """A GPU as mig-parted sees it."""

    geometry: Geometry | None
    """None if MIG cannot cut it."""
    ids: frozenset[str] = frozenset()
    """The PCI device ids that it may have, four hexadecimal digits in capitals."""

    def has(self, profile: MIGProfile | None) -> bool:
        """True if the GPU has a profile of exactly this name."""
        match = self.geometry.match(profile) if self.geometry is not None and profile is not None else None
        return match is not None and match.exact


@dataclass(frozen=True, slots=True)
class GPUState:
    """The MIG mode and devices of one GPU."""

    is_mig_enabled: bool = False
    devices: Mapping[MIGProfile, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ApplyError:
    """An error at which mig-parted stops, and leaves all other GPUs as they are."""

    entry: int
    """The index of the entry in its configuration."""
    gpu: int
    """The number of the GPU on its node."""
    words: str
    """The error that mig-parted reports."""
    shortage: str = ""
    """The shortage of the GPU for the devices: `9 of 8 memory slices`; empty if that is not the reason."""


@dataclass(frozen=True, slots=True)
class Applied:
    """The result of mig-parted on a node."""

    states: tuple[GPUState, ...]
    """The state of each GPU afterwards, also where it fails."""
    error: ApplyError | None
    """None if it succeeds."""
    ignored: Mapping[int, tuple[str, ...]]
    """The profiles that no GPU of the node has, as the entries spell them, by the index of the entry. Each GPU of such an
    entry has MIG enabled and no MIG devices, without an error."""


def apply_entries(entries: Sequence[Entry], gpus: Sequence[GPUModel], before: Sequence[GPUState] = ()) -> Applied:
    """Apply a configuration that mig-parted can read to the GPUs of a node, as mig-parted does.

    First it sets the MIG mode of all GPUs, then their devices. Entries are applied in their order, so of two that divide
    the same GPU the later one counts; if they differ in the mode, mig-parted fails. GPUs without an entry stay as they
    are. The order of `mig-devices` does not matter, because mig-parted tries all orders.

    Args:
        entries: The entries of the configuration.
        gpus: The GPUs of the node, in the order of their numbers.
        before: Their state before; without it, MIG is disabled on all.
    """
    ids = [gpu.ids for gpu in gpus]
    visits = [(entry, number) for entry in entries for number in entry.gpu_numbers(ids)]
    run = _Run(visits, gpus, list(before or [GPUState()] * len(gpus)))
    error = None if run.has_modes() else run.set_modes()
    if error is None and not run.has_devices():
        error = run.set_devices()
    return Applied(tuple(run.states), error, dict(run.ignored.values()))


def apply_on_node(entries: Sequence[Entry], labels: Mapping[str, str]) -> Applied:
    """Apply a configuration to the GPUs that the labels of a node describe, as mig-parted does.

    Drivers differ in the names of profiles. The driver is assumed under which the fewest profiles are unknown; if the
    product is unknown, it is assumed in the same way. If the labels do not count the GPUs, there are as many as the
    entries name. Only the first 64 entries are applied: there are not so many kinds of GPU.
    """
    entries = entries[:_MOST_ENTRIES]
    needed = 1 + max((number for entry in entries for number in entry.devices or ()), default=0)
    gpus = max(1, min(gpu_count(labels) or needed, MOST_GPUS))
    ids = device_ids(Product.parse(labels.get(PRODUCT_LABEL, "")).name)
    product = node_product(labels)
    geometries: Collection[Geometry | None] = [None]
    if is_capable(labels) is not False:
        known = [product] if product else PRODUCTS
        geometries = dict.fromkeys(geometry for each in known for geometry in each.geometries)
    runs = []
    for geometry in geometries:
        run = apply_entries(entries, [GPUModel(geometry, ids)] * gpus)
        if run.error is None and not run.ignored:
            return run
        runs.append(run)
    return min(runs, key=lambda run: (len(run.ignored), run.error is not None))


@dataclass(slots=True)
class _Run:
    """One run of `nvidia-mig-parted apply`."""

    visits: Sequence[tuple[Entry, int]]
    """Each entry with the number of each GPU that it is for."""
    gpus: Sequence[GPUModel]
    states: list[GPUState]
    ignored: dict[int, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    """The entry and its unknown profiles, by the number of the GPU that has no devices for that."""
    requests: dict[int, _Request] = field(default_factory=dict)

    def has_modes(self) -> bool:
        """True if all GPUs are in the MIG mode of every entry that is for them."""
        return all(
            entry.is_mig_enabled == (self.gpus[number].geometry is not None and self.states[number].is_mig_enabled)
            for entry, number in self.visits
        )

    def set_modes(self) -> ApplyError | None:
        for entry, number in self.visits:
            if self.gpus[number].geometry is not None:
                self.states[number] = GPUState(entry.is_mig_enabled)
            elif entry.devices is not None and entry.is_mig_enabled:
                return ApplyError(entry.index, number, "cannot set MIG mode on non MIG-capable GPU")
        return None

    def has_devices(self) -> bool:
        """True if there is nothing to do: every GPU has the devices of the last entry that is for it."""
        matched = [False] * len(self.gpus)
        for entry, number in self.visits:
            state = self.states[number]
            if self.gpus[number].geometry is None or not state.is_mig_enabled:
                if entry.is_mig_enabled:
                    return False
                matched[number] = True
            else:
                matched[number] = self._has(state, entry)
        return all(matched)

    def set_devices(self) -> ApplyError | None:
        for entry, number in self.visits:
            state = self.states[number]
            if self.gpus[number].geometry is None:
                continue
            if entry.is_mig_enabled and not state.is_mig_enabled:
                return ApplyError(entry.index, number, "unable to apply MIG config with MIG mode disabled")
            if not entry.is_mig_enabled and state.is_mig_enabled:
                words = "MIG mode is currently enabled, but the configuration specifies it should be disabled"
                return ApplyError(entry.index, number, words)
            if entry.is_mig_enabled and not self._has(state, entry) and (error := self._cut(entry, number)):
                return error
        return None

    def _has(self, state: GPUState, entry: Entry) -> bool:
        """True if a GPU has the devices of an entry, with profiles compared as they are spelled."""
        wanted = self._request(entry).spelled if entry.is_mig_enabled else {}
        return {str(profile): count for profile, count in state.devices.items()} == wanted

    def _cut(self, entry: Entry, number: int) -> ApplyError | None:
        request, state = self._request(entry), replace(self.states[number], devices={})
        self.states[number] = state
        self.ignored.pop(number, None)
        if request.unknown:
            self.ignored[number] = (entry.index, request.unknown)
            return None
        if shortage := request.shortage(self.gpus[number]):
            words = "error attempting multiple config orderings: all orderings failed"
            return ApplyError(entry.index, number, words, shortage)
        self.states[number] = replace(state, devices=request.counts)
        return None

    def _request(self, entry: Entry) -> _Request:
        """The devices that an entry requests; read once, because an entry is for many GPUs."""
        if entry.index not in self.requests:
            spelled = entry.requested
            profiles = {name: MIGProfile.parse(name) for name in spelled}
            models = set(self.gpus)
            unknown = (name for name, profile in profiles.items() if not any(gpu.has(profile) for gpu in models))
            self.requests[entry.index] = _Request(spelled, entry.counts, tuple(unknown))
        return self.requests[entry.index]


@dataclass(slots=True)
class _Request:
    """The devices of one entry."""

    spelled: Mapping[str, int]
    """The number of devices by profile as the entry spells it."""
    counts: Mapping[MIGProfile, int]
    unknown: tuple[str, ...]
    """The profiles that no GPU of the node has."""
    lacking: dict[GPUModel, str] = field(default_factory=dict)

    def shortage(self, gpu: GPUModel) -> str:
        """The shortage of a GPU for the devices; empty if it has room for them."""
        if gpu not in self.lacking:
            # Another GPU of the node has all profiles, so only this one may lack some.
            missing = next((profile for profile in self.counts if not gpu.has(profile)), None)
            if missing is not None:
                self.lacking[gpu] = f"the profile {missing}"
            else:
                self.lacking[gpu] = (excess(gpu.geometry, self.counts) if gpu.geometry is not None else None) or ""
        return self.lacking[gpu]
