"""The object under review: a claim, template, DeviceClass or ComputeDomain of any version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.checks import Checks
from policies.dra.resource_claims import Claim, read_configs, selector_expressions
from policies.kubernetes.objects import Object, name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.webhooks import CLAIM_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.dra.claims.facts import Facts
    from policies.dra.resource_claims import Config, Constraint, DeviceRequest, Subrequest
    from policies.request import Request

__all__ = ["CLAIMS", "SelectorText", "Subject"]


@dataclass(frozen=True, slots=True)
class SelectorText:
    """A CEL selector as it is written, not compiled."""

    path: FieldPath
    """Of the expression."""
    text: str
    subrequest: Subrequest | None
    """The subrequest that selects by it; None in a DeviceClass."""


@dataclass(frozen=True)
class Subject:
    """An object under review, with the facts to judge it by.

    Parts of the wrong type are skipped; the rule on shapes reports them.
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
    """True for a call of the API server: it serves this version, and has dropped the fields that it does not know."""

    @classmethod
    def of(cls, request: Request, facts: Facts) -> Subject | None:
        """The subject of an admission request; None for objects of other kinds."""
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
        """The path of the claim's spec: one level deeper in a template."""
        return FieldPath(("spec", "spec") if self.kind == "ResourceClaimTemplate" else ("spec",))

    @property
    def spec(self) -> Any:
        """The spec of the claim, class or ComputeDomain, whatever it is."""
        return lookup(self.object, self.spec_path)

    @property
    def devices_path(self) -> FieldPath:
        """The path of requests, constraints and configs."""
        return self.spec_path if self.kind == "DeviceClass" else self.spec_path / "devices"

    @cached_property
    def claim(self) -> Claim | None:
        """The claim, or the claim of the template; None for a DeviceClass or ComputeDomain."""
        if self.kind == "ResourceClaimTemplate":
            return Claim(self.object, "ResourceClaimTemplate")
        return Claim(self.object) if self.kind == "ResourceClaim" else None

    @property
    def requests(self) -> tuple[DeviceRequest, ...]:
        """The requests of the claim."""
        return self.claim.requests if self.claim else ()

    @property
    def subrequests(self) -> Iterator[Subrequest]:
        """The subrequests of all requests of the claim."""
        return self.claim.subrequests if self.claim else iter(())

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints of the claim."""
        return self.claim.constraints if self.claim else ()

    @cached_property
    def configs(self) -> tuple[Config, ...]:
        """The configs of the claim or DeviceClass."""
        return self.claim.configs if self.claim else read_configs(self.object, self.devices_path)

    @cached_property
    def selectors(self) -> tuple[SelectorText, ...]:
        """All CEL selectors: of the requests, or of the class."""
        owners: Iterable[tuple[Subrequest | None, FieldPath, Any]] = (
            [(None, self.devices_path, self.spec)]
            if self.kind == "DeviceClass"
            else [(each, each.path, each.fields) for each in self.subrequests]
        )
        return tuple(
            SelectorText(path / "selectors" / index / "cel" / "expression", text, subrequest)
            for subrequest, path, fields in owners
            for index, text in enumerate(selector_expressions(fields))
            if text is not None
        )

    @property
    def referring(self) -> tuple[Constraint | Config, ...]:
        """All that refers to requests: constraints and configs."""
        return (*self.constraints, *self.configs)


CLAIMS: Checks[Subject] = Checks()
"""The rules of claims, templates, DeviceClasses and ComputeDomains."""
