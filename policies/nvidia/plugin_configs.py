"""Configurations of NVIDIA's device plugin: one YAML document, read as the device plugin reads it.

GPU Feature Discovery and the MPS control daemon read the same document.

Source: github.com/NVIDIA/k8s-device-plugin v0.20 api/config/v1 (config.go, sharing.go, replicas.go).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from policies.kubernetes.yaml import Limits
from policies.nvidia.config_grammar import grammar_problems
from policies.nvidia.identifiers import UNPARSED, full_resource_name, name_exit

if TYPE_CHECKING:
    from collections.abc import Iterator


LIMITS = Limits(size=1024 * 1024, depth=20, nodes=10_000)
"""A ConfigMap holds at most a mebibyte; no real configuration comes near the other limits."""
_FEWEST = 2

Steps = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Sharing:
    """The sharing of devices by a configuration: MPS if it has both strategies."""

    strategy: Literal["mps", "time-slicing"]
    entries: tuple[tuple[str, int], ...]
    """The listed resources with their replicas, in the order of the document; a resource may be listed twice."""
    is_renamed: bool = False
    fails_above_one: bool = False
    """True if the plugin refuses containers that request more than one share."""

    def replicas(self, resource: str) -> int:
        """The shares that the plugin makes of each device of a resource; 1 if it is not shared.

        The largest number if the resource is listed twice, because the same shares are then made twice.
        """
        return max((replicas for name, replicas in self.entries if name == resource), default=1)

    def labelled_replicas(self, resource: str) -> int:
        """The replicas that GPU Feature Discovery writes: those of the first entry of the resource."""
        return next((replicas for name, replicas in self.entries if name == resource), 1)

    def offered_name(self, resource: str) -> str:
        """The name of a resource after it is shared."""
        is_shared = any(name == resource for name, _ in self.entries)
        return f"{resource}.shared" if self.is_renamed and is_shared else resource


@dataclass(frozen=True, slots=True)
class PluginConfig:
    """One document of the device plugin.

    Keys are matched whatever their case, as Go's encoding/json does, and a null is absent; but inside `timeSlicing`,
    `mps` and the items of their lists only the exact keys count.
    """

    value: Any
    """The whole document."""
    replaced_flags: frozenset[str] = frozenset()
    """The names, in lower case, of flags that the plugin takes from its environment instead."""

    def find(self, *names: str) -> tuple[Steps, Any]:
        """The path of a field as the document spells it, and its value; None if it is missing."""
        value = self.value
        steps: Steps = ()
        for name in names:
            spelt = _spelling(value, name)
            steps = (*steps, spelt)
            value = value.get(spelt) if isinstance(value, dict) else None
        return steps, value

    def get(self, *names: str) -> Any:
        """The value of a field."""
        return self.find(*names)[1]

    @property
    def mig_strategy(self) -> str:
        """`flags.migStrategy`; empty if it is missing or not a string."""
        value = self.get("flags", "migStrategy")
        return value if isinstance(value, str) else ""

    def strategies(self) -> Iterator[Strategy]:
        """The sharing strategies of the document, also empty ones."""
        names: tuple[Literal["timeSlicing"], Literal["mps"]] = ("timeSlicing", "mps")
        for name in names:
            steps, value = self.find("sharing", name)
            sharing = self.get("sharing")
            if isinstance(sharing, dict) and steps[-1] in sharing:
                yield Strategy(name, steps, value)

    def strategy(self, name: str) -> Strategy | None:
        """The sharing strategy of this name; None if it is missing or null."""
        found = (strategy for strategy in self.strategies() if strategy.name == name and strategy.value is not None)
        return next(found, None)

    def shared_resources(self) -> Iterator[SharedResource]:
        """The mappings in the resource lists of all strategies."""
        for strategy in self.strategies():
            yield from strategy.resources()

    @property
    def sharing(self) -> Sharing | None:
        """The sharing of devices; None if they are not shared."""
        mps = self.strategy("mps")
        chosen = mps or self.strategy("timeSlicing")
        if chosen is None:
            return None
        fails = chosen.get("failRequestsGreaterThanOne")
        return Sharing(
            "time-slicing" if mps is None else "mps",
            tuple((each.name, each.replicas) for each in chosen.resources()),
            is_renamed=chosen.get("renameByDefault") is True,
            fails_above_one=fails is True or (fails is None and mps is not None),
        )

    @property
    def error(self) -> str:
        """The message with which the device plugin exits at the document; empty if it reads it.

        Source: github.com/NVIDIA/k8s-device-plugin api/config/v1, UnmarshalJSON of each type;
        cmd/nvidia-device-plugin/main.go validateFlags.
        """
        return self._error(of_plugin=True)

    @property
    def label_error(self) -> str:
        """The message with which GPU Feature Discovery exits at the document; empty if it reads it."""
        return self._error(of_plugin=False)

    def _error(self, *, of_plugin: bool) -> str:
        if self.value is None:
            return ""
        if not isinstance(self.value, dict):
            return UNPARSED
        for strategy in self.strategies():
            if error := strategy.error:
                return error
        problems = (
            each
            for each in grammar_problems(self.value)
            if (of_plugin or not each.is_of_plugin) and not each.is_replaced(self.replaced_flags)
        )
        return next((each.exit for each in problems if each.kind == "value" and each.exit), "")


@dataclass(frozen=True, slots=True)
class Strategy:
    """`sharing.timeSlicing` or `sharing.mps`."""

    name: Literal["timeSlicing", "mps"]
    steps: Steps
    value: Any

    def get(self, name: str) -> Any:
        """The value of a field; only the exact spelling counts."""
        return self.value.get(name) if isinstance(self.value, dict) else None

    def resources(self) -> Iterator[SharedResource]:
        """The mappings in the resource list."""
        resources = self.get("resources")
        for index, item in enumerate(resources if isinstance(resources, list) else []):
            if isinstance(item, dict):
                yield SharedResource(self, (*self.steps, "resources", index), item)

    @property
    def error(self) -> str:
        """The error of the device plugin for the resource list; empty if it can read it."""
        if self.value is None:
            # `mps` is a pointer in Go, which null leaves out.
            return "no resources specified" if self.name == "timeSlicing" else ""
        if not isinstance(self.value, dict):
            return UNPARSED
        resources = self.value.get("resources")
        if resources is None or resources == []:
            return "no resources specified"
        if not isinstance(resources, list) or not all(isinstance(item, dict) for item in resources):
            return UNPARSED
        return next((error for each in self.resources() if (error := each.error)), "")


@dataclass(frozen=True, slots=True)
class SharedResource:
    """One item of the resource list of a strategy."""

    strategy: Strategy
    steps: Steps
    item: dict[str, Any]

    @property
    def name(self) -> str:
        """The resource's full name, `nvidia.com/gpu`; empty if it is missing."""
        name = self.item.get("name")
        return full_resource_name(name) if isinstance(name, str) and name else ""

    @property
    def replicas(self) -> int:
        """The number of shares per device; 0 if it is not an integer."""
        replicas = self.item.get("replicas")
        return replicas if isinstance(replicas, int) and not isinstance(replicas, bool) else 0

    @property
    def error(self) -> str:
        """The error of the device plugin for the item; empty if it can read it."""
        if "name" not in self.item:
            return "no resource name specified"
        if error := name_exit(self.item["name"]):
            return error
        if "replicas" not in self.item:
            return "no replicas specified"
        replicas = self.item["replicas"]
        if replicas is not None and (not isinstance(replicas, int) or isinstance(replicas, bool)):
            return UNPARSED
        return "number of replicas must be >= 2" if self.replicas < _FEWEST else ""


def _spelling(mapping: Any, name: str) -> str:
    """The key by which a mapping has a field: exactly, or in any case; the field's name if it is missing."""
    if not isinstance(mapping, dict) or name in mapping:
        return name
    return next((key for key in mapping if isinstance(key, str) and key.lower() == name.lower()), name)
