"""Components."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.configuration.change import OPERATOR, Section
from policies.configuration.schemas import SCHEMAS
from policies.fleet.operands import is_deployed
from policies.kubernetes.quantities import quantity_or_none
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from policies.configuration.change import Change
    from policies.kubernetes.schema import Field


_WITH_OS = frozenset({(), ("driver",), ("gds",), ("gdrcopy",), ("vgpuManager",)})


class Component(Section):
    """The part of a spec that describes one deployed container."""

    @property
    def name(self) -> str:
        """The component's name in its spec: `driver.manager`."""
        return ".".join(self.steps) or "driver"

    @property
    def is_driver(self) -> bool:
        """True for the driver of a ClusterPolicy or of an NVIDIADriver."""
        return self.steps in ((), ("driver",))

    @property
    def gets_os(self) -> bool:
        """True if the operator appends the node's operating system to the tag: for images with kernel modules."""
        return self.steps in _WITH_OS


def components_with(change: Change, *fields: str) -> Iterator[Component]:
    """The components that are deployed and may have these fields, by the schema of the kind."""
    for steps in _PATHS[fields].get(change.kind, ()):
        if isinstance(change.value(*steps), dict) and is_deployed(change.object, *steps):
            yield Component(change, steps)


def _paths_of(schema: Field, wanted: tuple[str, ...], steps: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if all(name in schema.fields for name in wanted):
        yield steps
    for name, field in schema.fields.items():
        if field.type == "object" and not field.deprecated:
            yield from _paths_of(field, wanted, (*steps, name))


_WANTED: tuple[tuple[str, ...], ...] = (("repository", "image", "version"), ("env",), ("resources",))
_PATHS = {wanted: {kind: tuple(_paths_of(schema, wanted)) for kind, schema in SCHEMAS.items()} for wanted in _WANTED}


_STRICT_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
_RELAXED_NAME = re.compile(r"[ -<>-~]+")


@OPERATOR.rule(
    "GA115",
    "Environment variables must have valid names, each used once",
    remedy="write a name of letters, digits and underscores",
    source="k8s.io/apimachinery/pkg/util/validation.IsEnvVarName; github.com/NVIDIA/gpu-operator "
    "controllers/object_controls.go setContainerEnv",
    rows=("C-30", "C-31"),
)
def environment(change: Change) -> Iterator[Problem]:
    """The operator copies the variables into its DaemonSets, which need valid names.

    The component is then not deployed, and only the operator's log says why. Of a name that is there twice, the last
    value wins silently.
    """
    for component in components_with(change, "env"):
        first: dict[str, int] = {}
        for index, variable in enumerate(component.items("env")):
            name = variable.get("name") if isinstance(variable, dict) else None
            if not isinstance(name, str):
                continue
            path = component.at("env", index, "name")
            if name in first:
                text = f'"{name}" is set by env[{first[name]}] already; the last value wins silently'
                yield Problem(path, text, f"remove one {name}", severity=Severity.WARN)
            first.setdefault(name, index)
            yield from _variable_name(component, index, name)


def _variable_name(component: Component, index: int, name: str) -> Iterator[Problem]:
    path = component.at("env", index, "name")
    if not _RELAXED_NAME.fullmatch(name):
        shown = f'"{name}"' if name else "the empty name"
        reason = " with its =" if "=" in name else ""
        fixed = name.partition("=")[0]
        text = f"{shown}{reason} is not a name of an environment variable, so Kubernetes refuses the pods"
        yield Problem(path, text, f"write name: {fixed}" if reason and _STRICT_NAME.fullmatch(fixed) else None)
        return
    is_relaxed = Feature.RelaxedEnvironmentVariableValidation.is_on(component.change.facts.view)
    if _STRICT_NAME.fullmatch(name) or is_relaxed is True:
        return
    shown = Feature.RelaxedEnvironmentVariableValidation.on_since
    if is_relaxed is UNKNOWN:
        text = f'"{name}" is refused by Kubernetes before {shown}, and the version of this cluster is not known here'
    else:
        text = f'"{name}" is not a name of an environment variable before Kubernetes {shown}, so the pods are refused'
    yield Problem(path, text, severity=Severity.WARN if is_relaxed is UNKNOWN else None)


@OPERATOR.rule(
    "GA116",
    "The requests of a component must not exceed its limits",
    remedy="lower the request or raise the limit",
    source="k8s.io/kubernetes pkg/apis/core/validation ValidateContainerResourceRequirements",
    rows=("C-34",),
)
def resources(change: Change) -> Iterator[Problem]:
    """The operator copies the resources into its DaemonSets, which Kubernetes validates.

    The DaemonSet is not updated, the ClusterPolicy stays notReady, and only the operator's log has Kubernetes' words.
    """
    for component in components_with(change, "resources"):
        requests, limits = (_amounts(component, side) for side in ("requests", "limits"))
        for name, (amount, text) in requests.items():
            limit, limit_text = limits.get(name, (None, ""))
            path = component.at("resources", "requests", name)
            domain, slash, _ = name.rpartition("/")
            is_native = f".{domain}".endswith(".kubernetes.io")
            must_be_equal = name.startswith("hugepages-") or (bool(slash) and not is_native)
            if limit is None and must_be_equal:
                told = f"is {text} without a limit; Kubernetes would report: Limit must be set for non overcommitable resources"
                yield Problem(path, told, f"add limits: {{{name}: {text}}}")
            elif limit is not None and amount != limit and must_be_equal:
                told = f"is {text}; Kubernetes would report: must be equal to {name} limit of {limit_text}"
                yield Problem(path, told, f"write {name}: {limit_text}")
            elif limit is not None and amount > limit:
                told = f"is {text}; Kubernetes would report: must be less than or equal to {name} limit of {limit_text}"
                yield Problem(path, told, f"write {name}: {limit_text} or less, or raise the limit")
        named = [*requests, *limits]
        huge = next((name for name in named if name.startswith("hugepages-")), None)
        if huge and not {"cpu", "memory"}.intersection(named):
            side = "requests" if huge in requests else "limits"
            told = "stands without cpu and memory; Kubernetes would report: HugePages require cpu or memory"
            yield Problem(component.at("resources", side, huge), told, "add a request of cpu or memory")


def _amounts(component: Component, side: str) -> dict[str, tuple[Fraction, Any]]:
    """The quantities that can be read; a rule of the schema reports the others."""
    read = ((name, quantity_or_none(value), value) for name, value in component.mapping("resources", side).items())
    return {name: (amount, value) for name, amount, value in read if amount is not None}
