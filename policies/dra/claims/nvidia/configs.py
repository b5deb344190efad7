"""The configs of a claim, template or class that NVIDIA's drivers read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.dra.claims.nvidia.schemas import API_VERSION, DRIVERS
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject
    from policies.dra.resource_claims import Config
    from policies.kubernetes.paths import FieldPath

__all__ = ["NvidiaConfig", "new_configs", "nvidia_configs"]


@dataclass(frozen=True, slots=True)
class NvidiaConfig:
    """One config for one of NVIDIA's drivers."""

    config: Config
    parameters: dict[str, Any]
    kind: str
    """The kind of its parameters; empty where its driver does not read them."""

    @property
    def driver(self) -> str:
        """`gpu.nvidia.com` or `compute-domain.nvidia.com`."""
        return self.config.driver

    @property
    def strategy(self) -> str:
        """The sharing strategy, whatever it is; empty where there is none."""
        strategy = self.value("sharing", "strategy")
        return strategy if isinstance(strategy, str) else ""

    @property
    def mps(self) -> dict[str, Any]:
        """The settings of MPS where they are in effect; empty otherwise."""
        settings = self.value("sharing", "mpsConfig")
        return settings if self.strategy == "MPS" and isinstance(settings, dict) else {}

    def value(self, *steps: str) -> Any:
        """A part of the parameters; None where it is missing."""
        return lookup(self.parameters, steps)

    def at(self, *steps: str) -> FieldPath:
        """Where a part of the parameters is."""
        path = self.config.parameters_path
        for step in steps:
            path /= step
        return path


def new_configs(subject: Subject) -> Iterator[Config]:
    """The configs that a change brings: all that are created, none where an update leaves them as they were."""
    path = subject.devices_path / "config"
    if subject.old is None or lookup(subject.old, path) != lookup(subject.object, path):
        yield from subject.configs


def nvidia_configs(subject: Subject, *kinds: str) -> Iterator[NvidiaConfig]:
    """The new configs whose parameters are for one of NVIDIA's drivers, of the given kinds where any are given."""
    for config in new_configs(subject):
        parameters = config.parameters
        if config.driver not in DRIVERS or not isinstance(parameters, dict):
            continue
        kind, version = parameters.get("kind"), parameters.get("apiVersion")
        read = isinstance(kind, str) and kind in DRIVERS[config.driver] and version in (None, API_VERSION)
        found = NvidiaConfig(config, parameters, str(kind) if read else "")
        if not kinds or found.kind in kinds:
            yield found
