"""Configurations: one YAML document of a device-plugin ConfigMap, read as the device plugin reads it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Literal

from policies.checks import Checks
from policies.configuration.config_maps.device_plugin.names import full_resource_name
from policies.configuration.embedded import Embedded
from policies.kubernetes.yaml import Limits, YAMLError, load_document

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

__all__ = [
    "CONFIGURATION",
    "LIMITS",
    "MOST_DOCUMENTS",
    "Configuration",
    "SharedResource",
    "Strategy",
    "configurations",
    "reviewed_texts",
    "texts",
]

LIMITS = Limits(size=1024 * 1024, depth=20, nodes=10_000)
"""A ConfigMap holds at most a mebibyte; no configuration that means something comes near the others."""

MOST_DOCUMENTS = 128
"""Keys of one ConfigMap that are reviewed; each takes up to half a millisecond, and a ConfigMap holds 50,000."""

Steps = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Configuration:
    """One document of a device-plugin ConfigMap.

    Keys are matched whatever their case, as Go's encoding/json does, and a null is absent; but inside `timeSlicing`,
    `mps` and the items of their lists only the exact keys count.

    Source: github.com/NVIDIA/k8s-device-plugin api/config/v1.
    """

    embedded: Embedded

    @property
    def change(self) -> Change:
        """The change of the ConfigMap."""
        return self.embedded.change

    @property
    def key(self) -> str:
        """The key of the ConfigMap, which is the configuration's name."""
        return self.embedded.key

    @property
    def value(self) -> Any:
        """The whole document."""
        return self.embedded.document.value

    def find(self, *names: str) -> tuple[Steps, Any]:
        """The path of a field as the document spells it, and its value; None if it is missing."""
        value = self.value
        steps: Steps = ()
        for name in names:
            spelt = spelling(value, name)
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


def spelling(mapping: Any, name: str) -> str:
    """How a mapping spells a field: exactly, or in any case; the field's name if it is missing."""
    if not isinstance(mapping, dict) or name in mapping:
        return name
    return next((key for key in mapping if isinstance(key, str) and key.lower() == name.lower()), name)


def texts(config_map: Any) -> dict[str, Any]:
    """The `data` of a ConfigMap."""
    data = config_map.get("data") if isinstance(config_map, dict) else None
    return data if isinstance(data, dict) else {}


def reviewed_texts(config_map: Any) -> Iterator[tuple[str, Any]]:
    """The first `MOST_DOCUMENTS` items of `data`; GA133 warns about more."""
    return islice(texts(config_map).items(), MOST_DOCUMENTS)


def configurations(change: Change) -> Iterator[Configuration]:
    """The documents of a ConfigMap that can be read; GA133 reports the others."""
    for key, text in reviewed_texts(change.object):
        if isinstance(text, str):
            try:
                yield Configuration(Embedded(change, key, load_document(text, limits=LIMITS)))
            except YAMLError:
                continue


CONFIGURATION: Checks[Configuration] = Checks("ConfigMap")
"""The checks of one configuration."""
