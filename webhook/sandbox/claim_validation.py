"""Validation of ResourceClaims, ResourceClaimTemplates and DeviceClasses: requests and selectors.

Source: kubernetes/pkg/apis/resource/validation; the words as seen on Kubernetes 1.36.2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.cel import CelCompileError, compile_selector
from policies.dra.resource_claims import Claim, DeviceRequest, Subrequest
from policies.kubernetes.names import is_dns_label, is_dns_subdomain
from policies.kubernetes.paths import FieldPath, mappings_at
from policies.kubernetes.printable import quote
from webhook.sandbox.statuses import NO_LABEL, NO_SUBDOMAIN, Cause, unsupported_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.kubernetes.objects import Object

__all__ = ["claim_problems"]

_MOST = 32
"""Of requests in a claim, and of selectors in a request."""
_ONE_OF = "exactly one of `exactly` or `firstAvailable` is required"
_SELECTORS = FieldPath(("spec", "selectors"))
"""Of a DeviceClass."""
_MODES = ("All", "ExactCount")


def claim_problems(document: Object) -> list[Cause]:
    """Problems of a document of one of these kinds; none for other kinds."""
    match document.get("kind"):
        case "DeviceClass":
            return list(_selector_problems(mappings_at(document, _SELECTORS), _SELECTORS))
        case "ResourceClaim" | "ResourceClaimTemplate" as kind:
            claim = Claim(document, kind)
            return list(_list_problems(claim.requests, claim.devices_path / "requests"))
    return []


def _list_problems(requests: Sequence[DeviceRequest], path: FieldPath) -> Iterator[Cause]:
    if len(requests) > _MOST:
        yield Cause(str(path), "TooMany", f"{len(requests)}: must have at most {_MOST} items")
    for request in requests:
        yield from _request_problems(request)
    yield from _repetitions(requests)


def _repetitions(named: Sequence[DeviceRequest | Subrequest]) -> Iterator[Cause]:
    names = [each.fields.get("name") for each in named]
    for index, each in enumerate(named):
        if names[index] in names[:index]:
            yield Cause(str(each.path), "Duplicate", quote(names[index]))


def _request_problems(request: DeviceRequest) -> Iterator[Cause]:
    yield from _name_problems(request)
    is_exact = request.fields.get("exactly") is not None
    if not is_exact and not request.is_prioritized:
        yield Cause(str(request.path), "Required", _ONE_OF)
    elif is_exact and request.is_prioritized:
        yield Cause(str(request.path), "Invalid", f"null: {_ONE_OF}, but multiple fields are set")
    for subrequest in request.subrequests:
        if request.is_prioritized:
            yield from _name_problems(subrequest)
        yield from _device_problems(subrequest)
    yield from _repetitions(request.subrequests)


def _name_problems(named: DeviceRequest | Subrequest) -> Iterator[Cause]:
    name = named.fields.get("name") or ""
    if not is_dns_label(name):
        yield Cause(f"{named.path}.name", "Invalid", f"{quote(name)}: {NO_LABEL}")


def _device_problems(request: Subrequest) -> Iterator[Cause]:
    """The devices of one request."""
    path = request.path
    if not request.device_class:
        yield Cause(f"{path}.deviceClassName", "Required", "")
    elif not is_dns_subdomain(request.device_class):
        yield Cause(f"{path}.deviceClassName", "Invalid", f"{quote(request.device_class)}: {NO_SUBDOMAIN}")
    yield from _selector_problems(mappings_at(request.fields, ("selectors",)), path / "selectors")
    mode, count = request.fields.get("allocationMode"), request.fields.get("count") or 0
    if mode not in _MODES:
        yield unsupported_value(f"{path}.allocationMode", mode, _MODES)
    elif mode == "All" and count:
        yield Cause(f"{path}.count", "Invalid", f"{count}: must not be specified when allocationMode is 'All'")
    elif mode == "ExactCount" and count <= 0:
        yield Cause(f"{path}.count", "Invalid", f"{count}: must be greater than zero")


def _selector_problems(selectors: Sequence[Object], path: FieldPath) -> Iterator[Cause]:
    if len(selectors) > _MOST:
        yield Cause(str(path), "TooMany", f"{len(selectors)}: must have at most {_MOST} items")
        return
    for index, selector in enumerate(selectors):
        cel = selector.get("cel")
        if not isinstance(cel, dict):
            yield Cause(f"{path}[{index}].cel", "Required", "")
            continue
        text = cel.get("expression") or ""
        try:
            compile_selector(text)
        except CelCompileError as error:
            yield Cause(f"{path}[{index}].cel.expression", "Invalid", f"{quote(text)}: {error}")
