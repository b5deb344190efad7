"""DeviceClasses, as far as allocation reads them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.dra.allocation.reading import mapping, objects, text
from policies.kubernetes.objects import name_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from policies.kubernetes.objects import Object

__all__ = ["DeviceClass", "read_classes"]


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """What a class adds to the requests that name it."""

    name: str
    selectors: tuple[str | None, ...]
    """CEL expressions; None for a kind of selector that is not CEL."""
    configs: Sequence[Mapping[str, Any]]


def read_classes(documents: Iterable[Object]) -> Mapping[str, DeviceClass]:
    """DeviceClasses by name; of two with one name the first counts.

    Raises:
        AllocationError: a field is of the wrong type.
    """
    classes: dict[str, DeviceClass] = {}
    for document in documents:
        name = name_of(document)
        where = f"class {name}"
        spec = mapping(document, "spec", where)
        classes.setdefault(name, DeviceClass(name, _selectors(spec, where), objects(spec, "config", where)))
    return classes


def _selectors(spec: Mapping[str, Any], where: str) -> tuple[str | None, ...]:
    return tuple(
        None if selector.get("cel") is None else text(mapping(selector, "cel", where), "expression", where)
        for selector in objects(spec, "selectors", where)
    )
