"""Claims, read into the requests that the search goes through."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.dra.allocation.amounts import Amount
from policies.dra.allocation.reading import flag, integer, mapping, objects, text, texts
from policies.kubernetes.objects import name_of, namespace_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policies.kubernetes.objects import Object

__all__ = ["Alternative", "Claim", "ConstraintSpec", "Request", "read_claim", "selectors_of"]


@dataclass(frozen=True, slots=True, eq=False)
class Alternative:
    """What a request asks for: its `exactly`, or one of its `firstAvailable`; equal only to itself."""

    name: str
    """The request's, or the subrequest's own."""
    parent: str
    """The request that it is a subrequest of; empty for `exactly`."""
    class_name: str
    mode: str
    """`ExactCount`, `All`, or something that no version of ours knows."""
    count: int
    admin_access: bool
    asks_admin_access: bool
    """Whether the field is set, even to false."""
    selectors: tuple[str | None, ...]
    """CEL expressions; None for a kind of selector that is not CEL."""
    tolerations: tuple[Mapping[str, Any], ...]
    capacity: Mapping[str, Amount] | None
    """Amounts by capacity name; None where the request has no `capacity`."""

    @property
    def full_name(self) -> str:
        """As results name it: `request` or `request/subrequest`."""
        return f"{self.parent}/{self.name}" if self.parent else self.name

    @property
    def request_name(self) -> str:
        """The name of the request that it belongs to."""
        return self.parent or self.name


@dataclass(frozen=True, slots=True)
class Request:
    """One entry of a claim's requests."""

    name: str
    alternatives: tuple[Alternative, ...]
    """In their order; one for `exactly`."""
    prioritized: bool
    """Whether it is a list of subrequests, of which the first that works is taken."""


@dataclass(frozen=True, slots=True)
class ConstraintSpec:
    """One entry of a claim's constraints."""

    requests: frozenset[str]
    """`request` or `request/subrequest`; all where it is empty."""
    match: str | None
    distinct: str | None

    def covers(self, alternative: Alternative) -> bool:
        """Whether it is about the devices of a request: `request` stands for all its subrequests."""
        return not self.requests or alternative.request_name in self.requests or alternative.full_name in self.requests


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim that is to be allocated."""

    name: str
    namespace: str
    uid: str
    requests: tuple[Request, ...]
    constraints: tuple[ConstraintSpec, ...]
    configs: Sequence[Mapping[str, Any]]

    @property
    def label(self) -> str:
        """As Kubernetes' messages name it."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


def read_claim(document: Object) -> Claim:
    """Read a ResourceClaim; what the API server would have defaulted is defaulted.

    Raises:
        AllocationError: a field is of the wrong type.

    Source of the defaults: k8s.io/kubernetes/pkg/apis/resource/v1/defaults.go.
    """
    name, namespace = name_of(document), namespace_of(document)
    where = f"claim {namespace}/{name}" if namespace else f"claim {name}"
    devices = mapping(mapping(document, "spec", where), "devices", where)
    return Claim(
        name=name,
        namespace=namespace,
        uid=text(mapping(document, "metadata", where), "uid", where),
        requests=tuple(_request(request, where) for request in objects(devices, "requests", where)),
        constraints=tuple(_constraint(constraint, where) for constraint in objects(devices, "constraints", where)),
        configs=objects(devices, "config", where),
    )


def selectors_of(parent: Mapping[str, Any], where: str) -> tuple[str | None, ...]:
    """The CEL expressions of a request or a class; None for a selector that has none."""
    return tuple(
        None if selector.get("cel") is None else text(mapping(selector, "cel", where), "expression", where)
        for selector in objects(parent, "selectors", where)
    )


def _request(document: Mapping[str, Any], where: str) -> Request:
    name = text(document, "name", where)
    where = f"{where}, request {name}"
    subrequests = objects(document, "firstAvailable", where)
    if subrequests:
        return Request(name, tuple(_alternative(each, name, where) for each in subrequests), prioritized=True)
    exactly = {**mapping(document, "exactly", where), "name": name}
    return Request(name, (_alternative(exactly, "", where),), prioritized=False)


def _alternative(document: Mapping[str, Any], parent: str, where: str) -> Alternative:
    mode = text(document, "allocationMode", where) or "ExactCount"
    count = integer(document, "count", where)
    return Alternative(
        name=text(document, "name", where),
        parent=parent,
        class_name=text(document, "deviceClassName", where),
        mode=mode,
        count=count or 1 if mode == "ExactCount" else count,
        admin_access=not parent and flag(document, "adminAccess", where),
        asks_admin_access=not parent and document.get("adminAccess") is not None,
        selectors=selectors_of(document, where),
        tolerations=tuple(objects(document, "tolerations", where)),
        capacity=_capacity(document, where),
    )


def _capacity(document: Mapping[str, Any], where: str) -> Mapping[str, Amount] | None:
    if document.get("capacity") is None:
        return None
    requests = mapping(mapping(document, "capacity", where), "requests", where)
    return {name: Amount.read(value, f"{where}, capacity {name}") for name, value in requests.items()}


def _constraint(document: Mapping[str, Any], where: str) -> ConstraintSpec:
    return ConstraintSpec(
        requests=frozenset(texts(document, "requests", where)),
        match=None if document.get("matchAttribute") is None else text(document, "matchAttribute", where),
        distinct=None if document.get("distinctAttribute") is None else text(document, "distinctAttribute", where),
    )
