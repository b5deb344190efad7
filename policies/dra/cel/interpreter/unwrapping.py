"""What becomes of an optional that an attribute begins with: a variable, or a branch of a ternary.

cel-go takes the value out as Go's own and turns it into one of CEL's again. Nothing is changed for most. But an
optional inside the optional is gone, a type is only its name, and domains that are not there are no longer empty maps.
Kubernetes' own types cannot be turned back: after `cel.bind(v, device.attributes["x"].?version, ...)`, `v.hasValue()`
is true and `v.value()` fails.

Not done as there: in a concatenation of two lists each element has the same fate.

Source: cel-go interpreter/attributes.go `applyQualifiers`, common/types/optional.go `Value`, provider.go
`NativeToValue`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel.devices import DomainMap, StringMap
from policies.dra.cel.libraries.cidrs import CIDR
from policies.dra.cel.libraries.ips import IP
from policies.dra.cel.libraries.quantities import Quantity
from policies.dra.cel.libraries.semvers import Semver
from policies.dra.cel.libraries.urls import URL
from policies.dra.cel.spelling import runtime_name
from policies.dra.cel.types import Type
from policies.dra.cel.unconvertible import Unconvertible
from policies.dra.cel.values import Absent, Optional

if TYPE_CHECKING:
    from policies.dra.cel.values import Value

__all__ = ["unwrapped", "wrapped_anew"]

_GO_TYPES: dict[type, str] = {
    CIDR: "netip.Prefix",
    IP: "netip.Addr",
    Quantity: "*resource.Quantity",
    Semver: "semver.Version",
    URL: "*url.URL",
    Unconvertible: "*errors.errorString",
}


def unwrapped(value: Value) -> Value:
    """What comes out of an optional that has a value."""
    while isinstance(value, Optional):
        value = None if isinstance(value.value, Absent) else value.value
    if isinstance(value, Type):
        return runtime_name(value)
    if isinstance(value, DomainMap):
        return StringMap(dict(value.items()))
    go_type = _GO_TYPES.get(type(value))
    if go_type is None:
        return value
    text = value.message if isinstance(value, Unconvertible) else str(value)
    return Unconvertible(f"unsupported conversion to ref.Val: ({go_type}){text}")


def wrapped_anew(value: Value) -> Value:
    """A value that an attribute comes to without any look-up."""
    if not isinstance(value, Optional) or isinstance(value.value, Absent):
        return value
    return Optional(unwrapped(value.value))
