"""The configs that NVIDIA's drivers read, and the requests whose devices they are for.

Source: dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_state.go getConfigResultsMap.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.dra.claims.nvidia.schemas import API_VERSION, DRIVERS, SCHEMAS, TYPE_OF, TYPES_OF_DRIVER
from policies.dra.deviceclasses import SHIPPED_TYPES, TYPES
from policies.dra.resource_claims import MOST_DEVICES, MOST_ENTRIES, is_within_lists
from policies.dra.selected_types import selected_types
from policies.kubernetes.paths import FieldPath, lookup
from policies.schema import find_problems

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.dra.claims.facts import Facts
    from policies.dra.claims.subject import Subject
    from policies.dra.resource_claims import Config, Subrequest
    from policies.schema import SchemaProblem

__all__ = [
    "NvidiaConfig",
    "all_selectors",
    "listed_types",
    "most_devices",
    "nvidia_configs",
    "reached_requests",
    "requested_types",
    "types_selected",
]


@dataclass(frozen=True, eq=False)
class NvidiaConfig:
    """One config for one of NVIDIA's drivers."""

    config: Config
    parameters: dict[str, Any]
    kind: str
    """The kind of its parameters; empty where its driver does not read them."""

    @cached_property
    def driver(self) -> str:
        """`gpu.nvidia.com` or `compute-domain.nvidia.com`."""
        return self.config.driver

    @cached_property
    def schema_problems(self) -> tuple[SchemaProblem, ...]:
        """What the schema of its kind does not allow."""
        schema = SCHEMAS.get(self.kind)
        return () if schema is None else tuple(find_problems(schema, self.parameters, self.at()))

    @cached_property
    def strategy(self) -> str:
        """The sharing strategy, of any value; empty if it is missing."""
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
        return FieldPath((*self.config.parameters_path, *steps))


def nvidia_configs(subject: Subject, *kinds: str) -> Sequence[NvidiaConfig]:
    """The new configs for one of NVIDIA's drivers, only of the given kinds if any are given."""
    if not subject.new_configs:
        return ()
    configs = subject.facts.effort.cache(nvidia_configs, lambda: [*_nvidia_configs(subject)])
    return [found for found in configs if found.kind in kinds] if kinds else configs


def _nvidia_configs(subject: Subject) -> Iterator[NvidiaConfig]:
    for config in subject.new_configs:
        parameters, driver = config.parameters, config.driver
        if driver in DRIVERS and isinstance(parameters, dict):
            kind, version = parameters.get("kind"), parameters.get("apiVersion")
            is_read = isinstance(kind, str) and kind in DRIVERS[driver] and version in (None, API_VERSION)
            yield NvidiaConfig(config, parameters, str(kind) if is_read else "")


def requested_types(subrequest: Subrequest, facts: Facts) -> frozenset[str]:
    """The types of devices that a request can get; all of them where its class is not known."""
    return facts.effort.cache((requested_types, subrequest.path), lambda: _requested_types(subrequest, facts))


def _requested_types(subrequest: Subrequest, facts: Facts) -> frozenset[str]:
    types, own = _types_of_class(subrequest.device_class, facts), _own_selectors(subrequest)
    return types & selected_types(own) if types and facts.effort.admit_own(subrequest.path, own) else types


def types_selected(subject: Subject) -> frozenset[str]:
    """The types of devices that a DeviceClass under review selects."""
    texts = [selector.text for selector in subject.selectors[:MOST_ENTRIES]]
    return selected_types(texts) if subject.facts.effort.admit_own(subject.devices_path, texts) else TYPES


def reached_requests(found: NvidiaConfig, subject: Subject) -> tuple[Subrequest, ...]:
    """The requests to whose devices the driver may apply a config.

    It compares the names that a config has exactly; one without names is for all devices of its type.
    """
    names = found.config.requests
    if names:
        return tuple(subrequest for subrequest in subject.subrequests if subrequest.full_name in names)
    type_ = TYPE_OF.get(found.kind, "")
    return tuple(
        subrequest for subrequest in subject.subrequests if type_ in requested_types(subrequest, subject.facts)
    )


def most_devices(found: NvidiaConfig, subject: Subject) -> int:
    """The most devices that a config can apply to at once; of a prioritized list one alternative counts."""
    if subject.kind == "DeviceClass":
        return MOST_DEVICES
    names = {subrequest.full_name for subrequest in reached_requests(found, subject)}
    counts = [
        max(
            (_most_of_request(subrequest) for subrequest in request.subrequests if subrequest.full_name in names),
            default=0,
        )
        for request in subject.requests
    ]
    return min(sum(counts), MOST_DEVICES) or MOST_DEVICES


def _own_selectors(subrequest: Subrequest) -> Sequence[str]:
    """The CEL expressions of a request; empty for a request beyond the length that lists may have."""
    return subrequest.expressions[:MOST_ENTRIES] if is_within_lists(subrequest.path) else ()


def all_selectors(subrequest: Subrequest, facts: Facts) -> Iterator[str]:
    """The CEL expressions of a request and, where it is known, of its class."""
    yield from facts.class_selectors(subrequest.device_class) or ()
    yield from _own_selectors(subrequest)


def listed_types(types: frozenset[str], driver: str) -> str:
    """Types of a driver's devices as a message lists them; may be empty."""
    return " or ".join(f'"{type_}"' for type_ in sorted(types & TYPES_OF_DRIVER[driver]))


def _types_of_class(name: str, facts: Facts) -> frozenset[str]:
    texts = facts.class_selectors(name)
    if texts is not None:
        admitted = facts.effort.admit_class(name, texts[:MOST_ENTRIES])
        return selected_types(texts[:MOST_ENTRIES]) if admitted else TYPES
    is_shipped = name in SHIPPED_TYPES and not isinstance(facts.device_class(name), dict)
    return frozenset({SHIPPED_TYPES[name]}) if is_shipped else TYPES


def _most_of_request(subrequest: Subrequest) -> int:
    return MOST_DEVICES if subrequest.allocation_mode == "All" else max(subrequest.count, 0)
