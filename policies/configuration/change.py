"""A change of configuration: the object before and after, and what it is judged by."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.configuration.cluster_facts import quoted_names
from policies.configuration.schemas import SCHEMAS
from policies.kubernetes.names import closest
from policies.kubernetes.objects import DEFAULT_NAMESPACE, FieldPath, Object, lookup, name_of, namespace_of
from policies.kubernetes.schema import SchemaProblem, find_problems
from policies.kubernetes.view import UNKNOWN
from policies.rules.checks import Problem, RulesOn
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.configuration.cluster_facts import Facts
    from policies.kubernetes.view import ClusterView
    from policies.rules.request import Operation, Request, UserInfo
    from policies.rules.settings import GPUAdmissionPolicy


_CONTROLLERS = frozenset(
    f"system:serviceaccount:kube-system:{name}" for name in ("namespace-controller", "generic-garbage-collector")
) | {"system:kube-controller-manager"}
_NFD_NAMESPACES = ("node-feature-discovery", "openshift-nfd")
"""Where Node Feature Discovery, which writes the labels of nodes, runs if it does not run beside the GPU Operator.

Source: kubernetes-sigs.github.io/node-feature-discovery deployment; OpenShift documentation of the NFD Operator.
"""


def is_lenient(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> bool:
    """True if a request must not be refused.

    It cleans up, comes from the operator, or changes no configuration.
    """
    old, new = request.old_object, request.object
    if lookup(new, ("metadata", "deletionTimestamp")):
        return True
    if is_operator(request.user, settings.configuration.operator_namespaces):
        return True
    if request.operation == "DELETE":
        namespace = view.get("Namespace", request.namespace) if request.namespace else None
        is_terminating = lookup(namespace, ("status", "phase")) == "Terminating"
        deleted_since = lookup(namespace, ("metadata", "deletionTimestamp"))
        return is_terminating or bool(deleted_since) or request.user.username in _CONTROLLERS
    if request.operation != "UPDATE" or request.kind == "Node" or not (isinstance(old, dict) and isinstance(new, dict)):
        return False
    # Adding an annotation must stay possible.
    has_same_labels = lookup(old, ("metadata", "labels")) == lookup(new, ("metadata", "labels"))
    return has_same_labels and all(old.get(key) == new.get(key) for key in ("spec", "data", "binaryData"))


def is_operator(user: UserInfo, operator_namespaces: Sequence[str]) -> bool:
    """True for service accounts of the GPU Operator, of what it deploys, and of Node Feature Discovery.

    The namespace proves it. The name of an account does not: tenants create accounts of any name in their namespaces.

    Args:
        user: who makes a request.
        operator_namespaces: of the settings (`configuration.operatorNamespaces`).
    """
    namespaces = (*operator_namespaces, *_NFD_NAMESPACES)
    return user.username.startswith(tuple(f"system:serviceaccount:{namespace}:" for namespace in namespaces))


SPEC = FieldPath(["spec"])
APPLIED = ("metadata", "annotations", "kubectl.kubernetes.io/last-applied-configuration")
"""Where `kubectl apply` keeps the manifest, with the fields that the API server dropped."""


class _Fields(ABC):
    """Fields of a spec, read by their type: a value of another type counts as missing."""

    @abstractmethod
    def value(self, *steps: str | int) -> Any:
        """The value of a field; None if it is missing."""

    @abstractmethod
    def value_before(self, *steps: str | int) -> Any:
        """The value of a field before an update; None if it was missing."""

    @abstractmethod
    def at(self, *steps: str | int) -> FieldPath:
        """The path of a field."""

    def text(self, *steps: str | int) -> str:
        """The string of a field; empty if it is missing."""
        value = self.value(*steps)
        return value if isinstance(value, str) else ""

    def number(self, *steps: str | int) -> int | None:
        """The integer of a field; None if it is missing."""
        value = self.value(*steps)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def mapping(self, *steps: str | int) -> dict[str, Any]:
        """The mapping of a field; empty if it is missing."""
        value = self.value(*steps)
        return value if isinstance(value, dict) else {}

    def items(self, *steps: str | int) -> list[Any]:
        """The list of a field; empty if it is missing."""
        value = self.value(*steps)
        return value if isinstance(value, list) else []

    def flag(self, *steps: str | int, default: bool = False) -> bool:
        """The boolean of a field; `default`, which is the operator's, if it is missing."""
        value = self.value(*steps)
        return value if isinstance(value, bool) else default

    def variables(self, *steps: str | int) -> Iterator[tuple[int, str, str | None]]:
        """Index, name and value of the environment variables in a list; None for a value that is not a string."""
        for index, item in enumerate(self.items(*steps)):
            name, value = lookup(item, ("name",)), lookup(item, ("value",))
            if isinstance(name, str):
                yield index, name, value if isinstance(value, str) else None


@dataclass(frozen=True)
class Change(_Fields):
    """The creation, update or deletion of one object; fields are read from its spec."""

    object: Object
    """The object after the change; on DELETE, before it."""
    old: Object | None
    """The object before the change; None on CREATE."""
    operation: Operation
    user: UserInfo
    namespace: str
    facts: Facts
    kind: str

    @classmethod
    def of(cls, request: Request, facts: Facts) -> Change | None:
        """The change of a request; None if it has no object."""
        document = request.object if request.operation != "DELETE" else request.old_object or request.object
        if not isinstance(document, dict):
            return None
        old, namespace = request.old_object, request.namespace
        return cls(document, old, request.operation, request.user, namespace, facts, request.kind)

    @cached_property
    def stored(self) -> Object | None:
        """A cluster-scoped object before the change; also of a file, if the cluster of the review has it."""
        if self.old is not None:
            return self.old
        view = self.facts.view
        if not view.objects_under_review(self.kind):
            known = view.get(self.kind, self.name)
            return known if isinstance(known, dict) else None
        found = view.list_before_review(self.kind)
        return next((each for each in (() if found is UNKNOWN else found) if name_of(each) == self.name), None)

    @property
    def is_created(self) -> bool:
        """True if the object is new."""
        return self.operation == "CREATE"

    @property
    def is_deleted(self) -> bool:
        """True if the object is deleted."""
        return self.operation == "DELETE"

    @property
    def is_read_by_operator(self) -> bool:
        """True if the object is in the operator's namespace, or in a file that names no namespace."""
        return self.namespace in ("", *self.facts.config_map_namespaces)

    @cached_property
    def is_disabled_driver(self) -> bool:
        """True for an NVIDIADriver that the operator disables, because the ClusterPolicy has the driver.

        Source: github.com/NVIDIA/gpu-operator controllers/nvidiadriver_controller.go Reconcile.
        """
        policy = self.facts.cluster_policy() if self.kind == "NVIDIADriver" else None
        return isinstance(policy, dict) and lookup(policy, ("spec", "driver", "useNvidiaDriverCRD")) is not True

    @property
    def api_version(self) -> str:
        """The object's `apiVersion`; empty if it is missing or not a string."""
        version = self.object.get("apiVersion")
        return version if isinstance(version, str) else ""

    @property
    def name(self) -> str:
        """The object's name."""
        return name_of(self.object)

    @property
    def spec(self) -> dict[str, Any]:
        """The object's spec; empty if it is missing or not a mapping."""
        spec = self.object.get("spec")
        return spec if isinstance(spec, dict) else {}

    @cached_property
    def schema_problems(self) -> tuple[SchemaProblem, ...]:
        """The problems of the spec by the schema of its kind; empty without a spec or a schema."""
        spec, schema = self.object.get("spec"), SCHEMAS.get(self.kind)
        return tuple(find_problems(schema, spec, SPEC)) if schema is not None and spec is not None else ()

    def value(self, *steps: str | int) -> Any:
        """The value at `spec.<steps>`; None if it is missing."""
        return lookup(self.spec, steps)

    def value_before(self, *steps: str | int) -> Any:
        """The value at `spec.<steps>` before an update."""
        return lookup(self.old, ("spec", *steps))

    def at(self, *steps: str | int) -> FieldPath:
        """The path of `spec.<steps>`."""
        return FieldPath((*SPEC, *steps))

    def section(self, *steps: str) -> Section:
        """The part of the spec at `spec.<steps>`."""
        return Section(self, steps)


@dataclass(frozen=True)
class Section(_Fields):
    """A part of a spec, such as `driver`, whose fields are read relative to it."""

    change: Change
    steps: tuple[str, ...]
    """Where in the spec it is; empty for the whole spec."""

    def value(self, *steps: str | int) -> Any:
        """The value of a field; None if it is missing."""
        return self.change.value(*self.steps, *steps)

    def value_before(self, *steps: str | int) -> Any:
        """The value of a field before an update; None if it was missing."""
        return self.change.value_before(*self.steps, *steps)

    def at(self, *steps: str | int) -> FieldPath:
        """The path of a field."""
        return self.change.at(*self.steps, *steps)


def applied_spec(document: Object) -> dict[str, Any] | None:
    """The spec that `kubectl apply` sent last; None if it was not applied, or the note cannot be read."""
    note = lookup(document, APPLIED)
    try:
        spec = lookup(json.loads(note), ("spec",)) if isinstance(note, str) else None
    except (ValueError, RecursionError):
        return None
    return spec if isinstance(spec, dict) else None


OPERATOR = RulesOn(*SCHEMAS, cluster_scoped=True)
"""All kinds that configure the GPU Operator."""
WITH_DRIVER = RulesOn("ClusterPolicy", "NVIDIADriver", cluster_scoped=True)
"""The kinds of rules about the driver."""
WITH_OPERANDS = RulesOn("ClusterPolicy", "GPUCluster", cluster_scoped=True)
"""The kinds of rules about what the operator deploys beside the driver."""
CLUSTER_POLICY = RulesOn("ClusterPolicy", cluster_scoped=True)
NVIDIA_DRIVER = RulesOn("NVIDIADriver", cluster_scoped=True)
GPU_CLUSTER = RulesOn("GPUCluster", cluster_scoped=True)
CONFIG_MAP = RulesOn("ConfigMap")


MADE_BY_THE_OPERATOR = {
    "default-mig-parted-config": FieldPath(["spec", "migManager", "config", "name"]),
    "default-gpu-clients": FieldPath(["spec", "migManager", "gpuClientsConfig", "name"]),
    "default-vgpu-devices-config": FieldPath(["spec", "vgpuDeviceManager", "config", "name"]),
}
"""ConfigMaps that the operator writes, and the field that names another one instead."""


def check_object(
    change: Change,
    path: FieldPath,
    kind: str,
    consequence: str,
    keys: Sequence[str] = (),
    *,
    keys_severity: Severity | None = None,
) -> Iterator[Problem]:
    """Problems if the ConfigMap or Secret that a field names, or a key of it, does not exist.

    The keys of a Secret can be hidden, so a Secret without any key has no problem.
    """
    name = lookup(change.object, path)
    if isinstance(name, str) and MADE_BY_THE_OPERATOR.get(name) == path:
        return
    found = change.facts.operator_object(kind, name) if isinstance(name, str) and name else {}
    if found is None:
        yield not_found(change, path, kind, name, consequence, keys)
    present = data_keys(found)
    missing = [key for key in keys if key not in present] if isinstance(found, dict) and found else []
    if missing and (present or kind != "Secret"):
        absent = " and ".join(missing)
        has = f"{quoted_names(present)} and not" if present else "no key"
        text = f'{kind} "{name}" has {has} {absent}; {consequence}'
        rename = f'rename the key in {kind} "{name}" to {absent}'
        remedy = rename if len(present) == 1 else f"add the key {absent} to it"
        yield Problem(path, text, remedy, severity=keys_severity)


def not_found(
    change: Change, path: FieldPath, kind: str, name: str, consequence: str, keys: Sequence[str] = ()
) -> Problem:
    """The problem of an object that does not exist in the operator's namespace."""
    namespaces, known = change.facts.operator_namespaces, change.facts.view.known_objects(kind)
    elsewhere = sorted(namespace_of(each) or DEFAULT_NAMESPACE for each in known if name_of(each) == name)
    is_guess = change.facts.operator_place.is_guess
    guess = closest(name, [name_of(each) for each in known if namespace_of(each) in namespaces])
    text = f'{kind} "{name}" not found in {" or ".join(namespaces)}'
    if elsewhere:
        text += f", only in {elsewhere[0]}" + ("" if is_guess else ", where the operator does not look")
    remedy = f'create {kind} "{name}" in {namespaces[0]} first'
    if keys:
        remedy += f", with the key {' and '.join(keys)}"
    if is_guess:
        text += "; these are only the defaults of configuration.operatorNamespaces"
        remedy += ", or name the operator's namespace in that setting"
    if guess and not elsewhere:
        remedy = f'write "{guess}"'
    return Problem(path, f"{text}; {consequence}", remedy, severity=Severity.WARN if is_guess else None)


def data_keys(document: Any) -> list[str]:
    """The keys of a ConfigMap or Secret."""
    parts = [lookup(document, (part,)) for part in ("data", "binaryData", "stringData")]
    return [key for part in parts if isinstance(part, dict) for key in part if isinstance(key, str)]
