"""An object under review by the rules of claims, and the facts of the cluster to judge it by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, wraps
from itertools import chain
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from policies.cel import CelFeatures
from policies.devices.deviceclasses import selector_texts
from policies.devices.effort import Effort
from policies.devices.resource_claims import Claim, is_within_lists, read_configs, selector_expressions
from policies.fleet.operands import driver_variable
from policies.kubernetes.objects import FieldPath, Object, lookup, name_of
from policies.kubernetes.view import UNKNOWN, ClusterView, Unknown
from policies.nvidia.identifiers import IMEX_MODE, IMEX_OF_HOST
from policies.rules.checks import RulesOn

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policies.devices.resource_claims import Config, Constraint, DeviceRequest, Subrequest
    from policies.nvidia.releases import NVIDIAFeature
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy


class Facts:
    """The facts of a view about claims. Every answer may be `UNKNOWN`."""

    def __init__(self, view: ClusterView, settings: GPUAdmissionPolicy, *, compares: bool = True) -> None:
        self.view = view
        self.settings = settings
        self.effort = Effort(compares=compares)

    def device_class(self, name: str) -> Object | Unknown | None:
        """A DeviceClass; None if it certainly does not exist."""
        return self.view.get("DeviceClass", name)

    def class_selectors(self, name: str) -> tuple[str, ...] | None:
        """The CEL expressions of a class; None if the class is unknown or missing, or they are malformed."""
        return self.effort.cache(
            (Facts.class_selectors, name),
            lambda: selector_texts(found) if isinstance(found := self.device_class(name), dict) else None,
        )

    def namespace_labels(self, namespace: str) -> dict[str, str] | Unknown:
        """The labels of a namespace; unknown if the namespace is."""
        found = self.view.get("Namespace", namespace)
        if not isinstance(found, dict):
            return UNKNOWN
        labels = lookup(found, ("metadata", "labels"))
        return labels if isinstance(labels, dict) else {}

    def cel_features(self) -> CelFeatures:
        """The features that the API server lets a new selector use; those of 1.36 if the version is unknown."""
        return CelFeatures.of_cluster(self.view, new_expressions=True)

    def driver_gate(self, gate: NVIDIAFeature) -> bool | Unknown:
        """True if a feature gate of NVIDIA's DRA driver is on: by the settings, else by the GPUCluster."""
        gates = self.settings.dra_driver.feature_gates
        if gates is None:
            clusters = self.view.known_objects("GPUCluster")
            if not clusters:
                return UNKNOWN
            gates = lookup(clusters[0], ("spec", "draDriver", "featureGates")) or {}
        return gate.is_on(gates) if isinstance(gates, dict) else UNKNOWN

    def has_imex_of_hosts(self) -> bool:
        """True if a GPUCluster says that hosts run the IMEX daemons, of which the DRA driver then starts none."""
        return any(
            driver_variable(cluster, ("computeDomains", "controller"), IMEX_MODE) == IMEX_OF_HOST
            for cluster in self.view.known_objects("GPUCluster")
        )

    def driver_version(self) -> str | Unknown:
        """The release of NVIDIA's DRA driver, `25.8.0`, if the settings name it."""
        return self.settings.dra_driver.version or UNKNOWN


class _HasEffort(Protocol):
    @property
    def effort(self) -> Effort: ...


P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S", bound=_HasEffort)


def cache_per_review(function: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """A function of facts or a subject that is called once in a review for the same arguments."""

    @wraps(function)
    def recall(of: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return of.effort.cache((function, *args), lambda: function(of, *args, **kwargs))

    return recall


CLAIMS = RulesOn("ResourceClaim", "ResourceClaimTemplate")
CLAIMS_AND_CLASSES = RulesOn("ResourceClaim", "ResourceClaimTemplate", "DeviceClass")
DEVICE_CLASSES = RulesOn("DeviceClass")
COMPUTE_DOMAINS = RulesOn("ComputeDomain")
TAINT_RULES = RulesOn("DeviceTaintRule", cluster_scoped=True)
ALL_KINDS = RulesOn("ResourceClaim", "ResourceClaimTemplate", "DeviceClass", "ComputeDomain", "DeviceTaintRule")
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
    """`v1`, `v1beta2` or `v1beta1`; of a ComputeDomain `v1beta1`; of a DeviceTaintRule also `v1alpha3`."""
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
    def effort(self) -> Effort:
        """The work that a review may still spend, and what it has computed."""
        return self.facts.effort

    @property
    def spec_path(self) -> FieldPath:
        """The path of the claim's spec: one level deeper in a template."""
        return FieldPath(("spec", "spec") if self.kind == "ResourceClaimTemplate" else ("spec",))

    @property
    def spec(self) -> Any:
        """The spec of the claim, class, ComputeDomain or DeviceTaintRule, whatever it is."""
        return lookup(self.object, self.spec_path)

    @cached_property
    def devices_path(self) -> FieldPath:
        """The path of requests, constraints and configs."""
        return self.spec_path if self.kind == "DeviceClass" else self.spec_path / "devices"

    @cached_property
    def devices(self) -> Any:
        """The value with the requests, constraints and configs, or the selectors of a class, of any type."""
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
