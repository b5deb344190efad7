"""GPUAdmissionPolicy: what the administrator can choose."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from policies.decision import Finding, Severity
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pydantic import TypeAdapter

__all__ = [
    "DEFAULTS",
    "Configuration",
    "Conversion",
    "DRADriver",
    "GPUAdmissionPolicy",
    "RuleOverride",
    "SettingsError",
    "parse_settings",
]

API_VERSION = "gpu-admission.io/v1alpha1"
_FIELDS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})
_RULE_ID = re.compile(r"GA[0-9]{3}")


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


# Read by pydantic when a document is parsed, and only then: importing pydantic costs more than reviewing a pod.
_MODEL: dict[str, Any] = {"extra": "forbid", "alias_generator": _camel}


class SettingsError(ValueError):
    """A document that is no valid GPUAdmissionPolicy; `problems` holds (field path, sentence) pairs."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{path}: {sentence}" if path else sentence for path, sentence in problems))


@dataclass(frozen=True, slots=True)
class RuleOverride:
    """Another severity for one rule."""

    __pydantic_config__ = _MODEL

    rule: Annotated[str, "GA and three digits"]
    severity: Severity
    namespaces: tuple[str, ...] = ("*",)
    """Where it holds, as shell patterns (`team-*`); later overrides win over earlier ones."""


@dataclass(frozen=True, slots=True)
class Conversion:
    """How pods are converted to DRA."""

    __pydantic_config__ = _MODEL

    schedulers: tuple[str, ...] = ("default-scheduler",)
    """Schedulers that allocate claims; pods of others are left alone."""
    allow_pod_opt_out: bool = True
    """Whether the pod label `gpu-admission.io/dra: disabled` is honoured."""
    keep_translated_labels: bool = False
    """Whether node labels that became device selectors stay in the pod as well; they vanish from nodes without GFD."""
    native_quota: Literal["deny", "warn"] = "deny"
    """What happens when conversion would switch a ResourceQuota of the namespace off."""
    unsatisfiable: Literal["warn", "deny"] = "warn"
    """What happens when no device of the cluster matches now."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """How the configuration of GPU clusters is validated."""

    __pydantic_config__ = _MODEL

    operator_namespaces: tuple[str, ...] = ("gpu-operator", "nvidia-gpu-operator")
    """Where the GPU Operator may run; ConfigMaps and Secrets that its resources name are looked for there."""
    cluster_policy_deletion: Literal["warn", "deny"] = "warn"
    """What happens when somebody deletes the ClusterPolicy while pods use GPUs."""


@dataclass(frozen=True, slots=True)
class DRADriver:
    """NVIDIA's DRA driver, as it runs in this cluster; it does not tell by itself."""

    __pydantic_config__ = _MODEL

    feature_gates: dict[str, bool] | None = None
    """Its feature gates that are set; None where nobody says, and then those of the GPUCluster count if there is one."""
    version: str = ""
    """Its release, such as `25.8.0`; empty where nobody says."""


@dataclass(frozen=True, slots=True)
class GPUAdmissionPolicy:
    """The administrator's choices: the `spec` of the one GPUAdmissionPolicy, named `default`."""

    __pydantic_config__ = _MODEL

    rules: tuple[RuleOverride, ...] = ()
    conversion: Conversion = field(default_factory=Conversion)
    configuration: Configuration = field(default_factory=Configuration)
    dra_driver: DRADriver = field(default_factory=DRADriver)

    def severity_of(self, rule: str, default: Severity, namespace: str) -> Severity:
        """The severity of a rule in a namespace; `default` where nothing overrides it."""
        for override in reversed(self.rules):
            if override.rule == rule and any(fnmatchcase(namespace, pattern) for pattern in override.namespaces):
                return override.severity
        return default

    def judge(self, findings: Iterable[Finding], namespace: str) -> tuple[Finding, ...]:
        """The findings with the severities that hold in a namespace, without those that are off."""
        judged = (
            replace(finding, severity=self.severity_of(finding.rule, finding.severity, namespace))
            for finding in findings
        )
        return tuple(finding for finding in judged if finding.severity is not Severity.OFF)


DEFAULTS = GPUAdmissionPolicy()


def parse_settings(document: Any) -> GPUAdmissionPolicy:
    """Read a GPUAdmissionPolicy object.

    Raises:
        SettingsError: with every problem of the document.
    """
    from pydantic import ValidationError  # noqa: PLC0415 - see _MODEL

    if not isinstance(document, dict):
        raise SettingsError([("", "a GPUAdmissionPolicy is a mapping with apiVersion, kind, metadata and spec")])
    problems = []
    if document.get("apiVersion") != API_VERSION:
        problems.append(("apiVersion", f'is {_shown(document.get("apiVersion"))}; write "{API_VERSION}"'))
    if document.get("kind") != "GPUAdmissionPolicy":
        problems.append(("kind", f'is {_shown(document.get("kind"))}; write "GPUAdmissionPolicy"'))
    metadata = document.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if name != "default":
        problems.append(("metadata.name", f'is {_shown(name)}; a cluster has one GPUAdmissionPolicy, named "default"'))
    problems += [
        (key, "is no field of a GPUAdmissionPolicy; settings are under spec") for key in document if key not in _FIELDS
    ]
    spec = {} if document.get("spec") is None else document["spec"]
    try:
        # As JSON and strictly, because that is how the API server reads it: "no" is text, and 1 is not true.
        policy = _adapter().validate_json(json.dumps(spec, default=str), strict=True)
    except ValidationError as error:
        problems += [_problem(detail) for detail in error.errors(include_url=False)]
    problems += _override_problems(spec)
    problems += [(f"spec.{'.'.join(path)}", said) for path, said in _EMPTY.items() if lookup(spec, path) == []]
    if problems:
        raise SettingsError(problems)
    return policy


@cache
def _adapter() -> TypeAdapter[GPUAdmissionPolicy]:
    from pydantic import TypeAdapter  # noqa: PLC0415 - see _MODEL

    return TypeAdapter(GPUAdmissionPolicy)


def _shown(value: Any) -> str:
    return "missing" if value is None else f'"{value}"' if isinstance(value, str) else "not text"


_WANTED = {
    "bool_type": "must be true or false",
    "dataclass_type": "must be a mapping",
    "string_type": "must be text",
    "tuple_type": "must be a list",
}


_EMPTY = {
    ("conversion", "schedulers"): "is empty, so nothing would be converted; leave it out to mean default-scheduler",
    ("configuration", "operatorNamespaces"): (
        "is empty, so nothing of the GPU Operator would be found; leave it out to mean gpu-operator and "
        "nvidia-gpu-operator"
    ),
}
"""What to say of lists that must name something."""


def _problem(detail: Any) -> tuple[str, str]:
    """Where and what, in our words: pydantic speaks of Python's types."""
    path, kind, value = "spec", detail["type"], detail["input"]
    for step in detail["loc"]:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    shown = json.dumps(value, ensure_ascii=False) if isinstance(value, str | int | float | None) else _shape(value)
    if kind == "missing":
        return path, "is missing"
    if kind == "unexpected_keyword_argument":
        return path, "is no setting; see docs/settings.md for those there are"
    if kind in ("enum", "literal_error"):
        expected = detail["ctx"]["expected"].replace("'", "")
        if value is False and "off" in expected:
            return path, 'is false, which is how YAML reads off; write "off" in quotes'
        return path, f"is {shown}; write {expected}"
    wanted = _WANTED.get(kind)
    return path, f"is {shown}; it {wanted}" if wanted else detail["msg"][:1].lower() + detail["msg"][1:]


def _shape(value: Any) -> str:
    return "a list" if isinstance(value, list) else "a mapping"


def _override_problems(spec: Any) -> Iterator[tuple[str, str]]:
    rules = lookup(spec, ("rules",))
    for index, override in enumerate(rules if isinstance(rules, list) else []):
        rule, namespaces = lookup(override, ("rule",)), lookup(override, ("namespaces",))
        if isinstance(rule, str) and not _RULE_ID.fullmatch(rule):
            yield f"spec.rules[{index}].rule", f'is "{rule}"; a rule is GA and three digits, such as GA307'
        if namespaces == []:
            yield f"spec.rules[{index}].namespaces", "is empty; leave it out to mean every namespace"
