"""All libraries of Kubernetes' CEL environment as one set of functions and type names.

Where several libraries have overloads of one function, the order is that in which Kubernetes adds the libraries:
k8s.io/apiserver/pkg/cel/environment/base.go, then k8s.io/dynamic-resource-allocation/cel/compile.go.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from policies.dra.cel.declarations import Function
from policies.dra.cel.libraries import (
    authorizers,
    cidrs,
    conversions,
    formats,
    ips,
    lists,
    maps,
    operators,
    optionals,
    quantities,
    regexes,
    semvers,
    sets,
    string_format,
    strings,
    times,
    urls,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.dra.cel.declarations import Library, Overload
    from policies.dra.cel.types import Type

__all__ = ["functions", "type_names"]

_LIBRARIES: tuple[Library, ...] = (
    operators.LIBRARY,
    conversions.LIBRARY,
    times.LIBRARY,
    urls.LIBRARY,
    regexes.LIBRARY,
    lists.LIBRARY,
    authorizers.LIBRARY,
    optionals.LIBRARY,
    quantities.LIBRARY,
    strings.LIBRARY,
    string_format.LIBRARY,
    sets.LIBRARY,
    ips.LIBRARY,
    cidrs.LIBRARY,
    formats.LIBRARY,
    maps.LIBRARY,
    semvers.LIBRARY,
)


@cache
def functions() -> Mapping[str, Function]:
    """Every function by name, with the overloads of all libraries."""
    overloads: dict[str, list[Overload]] = {}
    for library in _LIBRARIES:
        for function in library.functions:
            overloads.setdefault(function.name, []).extend(function.overloads)
    return {name: Function(name, tuple(known)) for name, known in overloads.items()}


@cache
def type_names() -> Mapping[str, Type]:
    """Every type of a library that expressions can name."""
    return {type_.name: type_ for library in _LIBRARIES for type_ in library.type_names}
