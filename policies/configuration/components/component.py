"""A component: a mapping of a spec that describes a container, wherever the schema has one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.configuration.change import Section
from policies.configuration.schemas import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.schema import Field

__all__ = ["Component", "components_with"]

_OFF_UNLESS_ENABLED = (
    *("ccManager", "gdrcopy", "gds", "kataSandboxDevicePlugin", "nodeStatusExporter", "sandboxDevicePlugin"),
    *("vfioManager", "vgpuDeviceManager", "vgpuManager"),
)
"""Components that are deployed only where `enabled` is true; the others unless it is false."""

_OF_THE_DRIVER = frozenset({"driver", "gds", "gdrcopy"})
_WITH_OS = frozenset({(), ("driver",), ("gds",), ("gdrcopy",), ("vgpuManager",)})


class Component(Section):
    """The part of a spec that describes one deployed container."""

    @property
    def name(self) -> str:
        """The component's name in its spec: `driver.manager`."""
        return ".".join(self.steps) or "driver"

    @property
    def is_driver(self) -> bool:
        """True for the driver of a ClusterPolicy or of an NVIDIADriver."""
        return self.steps in ((), ("driver",))

    @property
    def gets_os(self) -> bool:
        """True if the operator appends the node's operating system to the tag: for images with kernel modules."""
        return self.steps in _WITH_OS


def components_with(change: Change, *fields: str) -> Iterator[Component]:
    """The components that are deployed and may have these fields, by the schema of the kind."""
    for steps in _PATHS[fields].get(change.kind, ()):
        if isinstance(change.value(*steps), dict) and _is_deployed(change, steps):
            yield Component(change, steps)


def _is_deployed(change: Change, steps: tuple[str, ...]) -> bool:
    if not steps:
        return True
    if change.kind == "ClusterPolicy" and steps[0] in _OF_THE_DRIVER and change.flag("driver", "useNvidiaDriverCRD"):
        return False
    return change.flag(steps[0], "enabled", default=steps[0] not in _OFF_UNLESS_ENABLED) and all(
        change.flag(*steps[:depth], "enabled", default=True) for depth in range(2, len(steps) + 1)
    )


def _paths_of(schema: Field, wanted: tuple[str, ...], steps: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if all(name in schema.fields for name in wanted):
        yield steps
    for name, field in schema.fields.items():
        if field.type == "object" and not field.deprecated:
            yield from _paths_of(field, wanted, (*steps, name))


_WANTED: tuple[tuple[str, ...], ...] = (("repository", "image", "version"), ("env",), ("resources",))
_PATHS = {wanted: {kind: tuple(_paths_of(schema, wanted)) for kind, schema in SCHEMAS.items()} for wanted in _WANTED}
