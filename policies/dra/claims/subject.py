"""The object under review: a claim, template, DeviceClass or ComputeDomain of any version."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from policies.checks import Checks
from policies.dra.resource_claims import Claim, is_within_lists, read_configs, selector_expressions
from policies.kubernetes.objects import Object, name_of
from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.dra.claims.facts import Facts
    from policies.dra.resource_claims import Config, Constraint, DeviceRequest, Subrequest
    from policies.request import Request

__all__ = ["CLAIMS", "CLAIM_OR_TEMPLATE", "COMPUTE_DOMAIN", "DEVICE_CLASS", "SelectorText", "Subject"]


CLAIM_OR_TEMPLATE = ("ResourceClaim", "ResourceClaimTemplate")
DEVICE_CLASS = ("DeviceClass",)
COMPUTE_DOMAIN = ("ComputeDomain",)
"""The kinds of rules that only look at some of them."""


@dataclass(frozen=True, slots=True)
class SelectorText:
    """A CEL selector as it is written, not compiled."""

    owner: FieldPath
    """The path of the request or of the class spec."""
    index: int
    text: str
    subrequest: Subrequest | None
    """The subrequest that selects by it; None in a DeviceClass."""

    @property
    def path(self) -> FieldPath:
        """The path of the expression."""
        return FieldPath((*self.owner, "selectors", self.index, "cel", "expression"))


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
        """The subject of an admission request about one of the kinds; None without an object."""
        if not isinstance(request.object, dict):
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

    @cached_property
    def devices_path(self) -> FieldPath:
        """The path of requests, constraints and configs."""
        return self.spec_path if self.kind == "DeviceClass" else self.spec_path / "devices"

    @cached_property
    def devices(self) -> Any:
        """What has the requests, constraints and configs, or the selectors of a class, whatever it is."""
        return self.claim.devices if self.claim else lookup(self.object, self.devices_path)

    @cached_property
    def claim(self) -> Claim | None:
        """The claim, or the claim of the template; None for a DeviceClass or ComputeDomain."""
        if self.kind == "ResourceClaimTemplate":
            return Claim(self.object, "ResourceClaimTemplate")
        return Claim(self.object) if self.kind == "ResourceClaim" else None

    @cached_property
    def requests(self) -> tuple[DeviceRequest, ...]:
        """The requests of the claim."""
        return self.claim.requests if self.claim else ()

    @cached_property
    def subrequests(self) -> tuple[Subrequest, ...]:
        """The subrequests of all requests of the claim."""
        return tuple(self.claim.subrequests) if self.claim else ()

    @cached_property
    def reviewed_subrequests(self) -> tuple[Subrequest, ...]:
        """The subrequests within the limits of lists; another rule reports the others."""
        return tuple(subrequest for subrequest in self.subrequests if is_within_lists(subrequest.path))

    @cached_property
    def constraints(self) -> tuple[Constraint, ...]:
        """The constraints of the claim."""
        return self.claim.constraints if self.claim else ()

    @cached_property
    def configs(self) -> tuple[Config, ...]:
        """The configs of the claim or DeviceClass."""
        return self.claim.configs if self.claim else read_configs(self.devices, self.devices_path)

    @cached_property
    def selectors_of(self) -> Mapping[Subrequest | None, tuple[SelectorText, ...]]:
        """The CEL selectors of each request; under None those of the class."""
        if self.kind == "DeviceClass":
            return {None: _selector_texts(self.devices_path, selector_expressions(self.spec), None)}
        return {each: _selector_texts(each.path, each.selectors, each) for each in self.subrequests}

    @cached_property
    def selectors(self) -> tuple[SelectorText, ...]:
        """All CEL selectors: of the requests, or of the class."""
        return tuple(chain.from_iterable(self.selectors_of.values()))

    @cached_property
    def has_new_selectors(self) -> bool:
        """True if the selectors are new: those of a claim cannot change, those of a class can."""
        return self.old is None or (self.kind == "DeviceClass" and self._has_changed("selectors"))

    @cached_property
    def new_configs(self) -> tuple[Config, ...]:
        """The configs that are new: all of a new object; none of an update that does not change them."""
        return self.configs if self.old is None or self._has_changed("config") else ()

    def _has_changed(self, field: str) -> bool:
        """True if an update changes a field beside the requests or selectors."""
        return bool(lookup(self.old, self.devices_path / field) != lookup(self.devices, (field,)))

    @cached_property
    def referring(self) -> tuple[Constraint | Config, ...]:
        """All that refers to requests: constraints and configs."""
        return (*self.constraints, *self.configs)


def _selector_texts(
    owner: FieldPath, texts: tuple[str | None, ...], subrequest: Subrequest | None
) -> tuple[SelectorText, ...]:
    return tuple(SelectorText(owner, index, text, subrequest) for index, text in enumerate(texts) if text is not None)


CLAIMS: Checks[Subject] = Checks(*CLAIM_OR_TEMPLATE, *DEVICE_CLASS)
"""The rules of claims, templates, DeviceClasses and ComputeDomains."""
