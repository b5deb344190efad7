"""What is under review: a claim, a template, a DeviceClass or a ComputeDomain, read in any version of its API."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.dra.device_requests import Config, Constraint, Request, read_requests
from policies.entries import CLAIM_KINDS
from policies.kubernetes.objects import Object, name_of
from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.facts import Facts
    from policies.dra.device_requests import Asked
    from policies.request import Request as AdmissionRequest

__all__ = ["SelectorText", "Subject"]


@dataclass(frozen=True, slots=True)
class SelectorText:
    """A CEL selector as it is written, not compiled."""

    path: FieldPath
    """Of the expression."""
    text: str
    asked: Asked | None
    """Who selects by it; None in a DeviceClass."""


@dataclass(frozen=True)
class Subject:
    """An object under review, with the facts to judge it by.

    Only what has the right shape is found here: a list where a mapping belongs is told by the rule on shapes, and passed
    over by all others.
    """

    object: Object
    old: Object | None
    """The object as it is; None when it is created."""
    kind: str
    version: str
    """`v1`, `v1beta2` or `v1beta1`; of a ComputeDomain `v1beta1`."""
    namespace: str
    facts: Facts
    served: bool = False
    """Whether the API server asks: it serves this version then, and has dropped the fields that it does not know."""

    @classmethod
    def of(cls, request: AdmissionRequest, facts: Facts) -> Subject | None:
        """What an admission request is about; None where that is nothing of these kinds."""
        if (request.group, request.kind) not in CLAIM_KINDS or not isinstance(request.object, dict):
            return None
        version = str(request.object.get("apiVersion", "")).rpartition("/")[2]
        served = bool(request.entry)
        return cls(request.object, request.old_object, request.kind, version, request.namespace, facts, served)

    @property
    def name(self) -> str:
        """The object's name."""
        return name_of(self.object)

    @property
    def spec_path(self) -> FieldPath:
        """Where the claim's spec is: in a template one level deeper."""
        return FieldPath(("spec", "spec") if self.kind == "ResourceClaimTemplate" else ("spec",))

    @property
    def spec(self) -> Any:
        """The spec of the claim, class or ComputeDomain, whatever it is."""
        return lookup(self.object, self.spec_path)

    @property
    def devices_path(self) -> FieldPath:
        """Where requests, constraints and configs are."""
        return self.spec_path if self.kind == "DeviceClass" else self.spec_path / "devices"

    @cached_property
    def requests(self) -> tuple[Request, ...]:
        """The claim's requests, all versions alike."""
        path = self.devices_path / "requests"
        return tuple(read_requests(lookup(self.object, path), path, self.version))

    @property
    def asked(self) -> Iterator[Asked]:
        """Every request for devices of a class: exact ones, and the alternatives of prioritized lists."""
        for request in self.requests:
            yield from request.alternatives

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """The claim's constraints."""
        return tuple(Constraint(path, fields) for path, fields in self._mappings("constraints"))

    @cached_property
    def configs(self) -> tuple[Config, ...]:
        """The configs of the claim or class."""
        return tuple(Config(path, fields) for path, fields in self._mappings("config"))

    @cached_property
    def selectors(self) -> tuple[SelectorText, ...]:
        """All CEL selectors: of the requests, or of the class."""
        if self.kind == "DeviceClass":
            return tuple(_selectors(lookup(self.object, ("spec", "selectors")), FieldPath(("spec", "selectors")), None))
        return tuple(
            selector
            for asked in self.asked
            for selector in _selectors(asked.fields.get("selectors"), asked.path / "selectors", asked)
        )

    @property
    def referring(self) -> tuple[Constraint | Config, ...]:
        """All that refers to requests: constraints and configs."""
        return (*self.constraints, *self.configs)

    def _mappings(self, name: str) -> Iterator[tuple[FieldPath, dict[str, Any]]]:
        path = self.devices_path / name
        items = lookup(self.object, path)
        for index, item in enumerate(items if isinstance(items, list) else ()):
            if isinstance(item, dict):
                yield path / index, item


def _selectors(document: Any, path: FieldPath, asked: Asked | None) -> Iterator[SelectorText]:
    for index, item in enumerate(document if isinstance(document, list) else ()):
        text = lookup(item, ("cel", "expression"))
        if isinstance(text, str):
            yield SelectorText(path / index / "cel" / "expression", text, asked)
