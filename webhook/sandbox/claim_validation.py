"""Validation of ResourceClaims, ResourceClaimTemplates and DeviceClasses: requests and selectors.

Source: kubernetes/pkg/apis/resource/validation; the words as seen on Kubernetes 1.36.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.dra.cel import CelCompileError, compile_selector
from policies.kubernetes.names import is_dns_label, is_dns_subdomain
from policies.kubernetes.paths import items_at, lookup
from webhook.sandbox.statuses import NO_LABEL, NO_SUBDOMAIN, Cause, quote, unsupported_value

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object

__all__ = ["claim_problems"]

_MOST = 32
"""Of requests in a claim, and of selectors in a request."""
_SPECS = {"ResourceClaim": ("spec",), "ResourceClaimTemplate": ("spec", "spec")}
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_MODES = ("All", "ExactCount")


def claim_problems(document: Object) -> list[Cause]:
    """Problems of a document of one of these kinds; none for other kinds."""
    kind = document.get("kind")
    if kind == "DeviceClass":
        return list(_selector_problems(lookup(document, ("spec", "selectors")), "spec.selectors"))
    if kind not in _SPECS:
        return []
    path = (*_SPECS[kind], "devices", "requests")
    return list(_list_problems(items_at(document, path), ".".join(path)))


def _list_problems(requests: list[Any], path: str) -> Iterator[Cause]:
    found = _objects(requests)
    if len(found) > _MOST:
        yield Cause(path, "TooMany", f"{len(found)}: must have at most {_MOST} items")
    for index, request in enumerate(found):
        yield from _request_problems(request, f"{path}[{index}]")
    yield from _repetitions(found, path)


def _objects(value: Any) -> list[Object]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def _repetitions(named: list[Object], path: str) -> Iterator[Cause]:
    names = [item.get("name") for item in named]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield Cause(f"{path}[{index}]", "Duplicate", quote(name))


def _request_problems(request: Object, path: str) -> Iterator[Cause]:
    yield from _name_problems(request, path)
    exactly, first = request.get("exactly"), _objects(request.get("firstAvailable"))
    if exactly is None and not first:
        yield Cause(path, "Required", _ONE_OF)
    elif exactly is not None and first:
        yield Cause(path, "Invalid", f"null: {_ONE_OF}, but multiple fields are set")
    elif isinstance(exactly, dict):
        yield from _device_problems(exactly, f"{path}.exactly")
    for index, alternative in enumerate(first):
        yield from _name_problems(alternative, f"{path}.firstAvailable[{index}]")
        yield from _device_problems(alternative, f"{path}.firstAvailable[{index}]")
    yield from _repetitions(first, f"{path}.firstAvailable")


def _name_problems(named: Object, path: str) -> Iterator[Cause]:
    name = named.get("name") or ""
    if not is_dns_label(name):
        yield Cause(f"{path}.name", "Invalid", f"{quote(name)}: {NO_LABEL}")


def _device_problems(request: Object, path: str) -> Iterator[Cause]:
    """The devices of one request."""
    device_class = request.get("deviceClassName") or ""
    if not device_class:
        yield Cause(f"{path}.deviceClassName", "Required", "")
    elif not is_dns_subdomain(device_class):
        yield Cause(f"{path}.deviceClassName", "Invalid", f"{quote(device_class)}: {NO_SUBDOMAIN}")
    yield from _selector_problems(request.get("selectors"), f"{path}.selectors")
    mode, count = request.get("allocationMode"), request.get("count") or 0
    if mode not in _MODES:
        yield unsupported_value(f"{path}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        yield Cause(f"{path}.count", "Invalid", f"{count}: must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        yield Cause(f"{path}.count", "Invalid", f"{count}: must be greater than zero")


def _selector_problems(selectors: Any, path: str) -> Iterator[Cause]:
    found = _objects(selectors)
    if len(found) > _MOST:
        yield Cause(path, "TooMany", f"{len(found)}: must have at most {_MOST} items")
        return
    for index, selector in enumerate(found):
        cel = selector.get("cel")
        if not isinstance(cel, dict):
            yield Cause(f"{path}[{index}].cel", "Required", "")
            continue
        text = cel.get("expression") or ""
        try:
            compile_selector(text)
        except CelCompileError as error:
            yield Cause(f"{path}[{index}].cel.expression", "Invalid", f"{quote(text)}: {error}")
