"""Pods: the parts of their shape that policies read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from policies.kubernetes.names import is_dns_label
from policies.kubernetes.nodes import REQUIRED
from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object

__all__ = ["SPEC", "Container", "MalformedPodError", "Pod", "has_pod_constraints_shape"]

SPEC = FieldPath(["spec"])

ContainerKind = Literal["container", "init", "sidecar"]


class MalformedPodError(ValueError):
    """The object does not have a pod's shape; `problems` holds (path, sentence) pairs."""

    def __init__(self, problems: list[tuple[FieldPath, str]]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{path} {sentence}" for path, sentence in problems))


@dataclass(frozen=True, slots=True)
class Container:
    """A container or init container of a pod, and what it asks for."""

    name: str
    path: FieldPath
    kind: ContainerKind
    """`container`, `init` (runs to its end before the next starts) or `sidecar` (an init container that stays)."""
    limits: dict[str, Any]
    requests: dict[str, Any]
    claims: tuple[dict[str, Any], ...]


@dataclass(frozen=True)
class Pod:
    """A pod whose shape has been checked, over the raw object."""

    document: Object
    containers: tuple[Container, ...]
    """App containers."""
    init_containers: tuple[Container, ...]
    """Init containers and sidecars, in the order in which they start."""

    @classmethod
    def read(cls, document: Any) -> Pod:
        """Check the shape of what policies read.

        The API server has done so before it asks us; a file on disk has not been checked by anybody.

        Raises:
            MalformedPodError: with everything that is wrong.
        """
        reader = _Reader()
        metadata = reader.mapping(document, FieldPath(["metadata"]))
        for key in ("labels", "annotations"):
            reader.texts(metadata, FieldPath(["metadata", key]))
        reader.items(metadata, FieldPath(["metadata", "ownerReferences"]))
        spec = reader.mapping(document, SPEC)
        reader.texts(spec, SPEC / "nodeSelector")
        for key in ("nodeName", "schedulerName"):
            reader.text(spec, SPEC / key)
        for key in ("tolerations", "resourceClaims"):
            for path, item in reader.items(spec, SPEC / key):
                for name in ("name", "key", "operator", "effect", "resourceClaimTemplateName", "resourceClaimName"):
                    reader.text(item, path / name)
        _read_affinity(reader, spec)
        init_containers = tuple(_read_containers(reader, spec, "initContainers"))
        containers = tuple(_read_containers(reader, spec, "containers"))
        names: set[str] = set()
        for container in (*init_containers, *containers):
            if container.name and container.name in names:
                reader.problem(container.path / "name", f'"{container.name}" names another container already')
            names.add(container.name)
        if not containers and not reader.problems:
            reader.problem(SPEC / "containers", "is empty; a pod has at least one container")
        if reader.problems:
            raise MalformedPodError(reader.problems)
        return cls(document, containers, init_containers)

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """Init containers, then containers: the order in which they start."""
        return (*self.init_containers, *self.containers)

    @cached_property
    def labels(self) -> dict[str, str]:
        """The pod's labels."""
        return lookup(self.document, ("metadata", "labels")) or {}

    @cached_property
    def annotations(self) -> dict[str, str]:
        """The pod's annotations."""
        return lookup(self.document, ("metadata", "annotations")) or {}

    @cached_property
    def spec(self) -> dict[str, Any]:
        """The pod's spec."""
        spec: dict[str, Any] = self.document["spec"]
        return spec

    @property
    def resource_claims(self) -> list[dict[str, Any]]:
        """The pod's claims, `spec.resourceClaims`."""
        return self.spec.get("resourceClaims") or []

    @property
    def controller_kind(self) -> str:
        """The kind of the controller that owns the pod; empty for a bare pod."""
        owners = lookup(self.document, ("metadata", "ownerReferences")) or []
        kinds = (str(owner.get("kind")) for owner in owners if owner.get("controller") is True)
        return next(kinds, "")

    @property
    def past_scheduling(self) -> bool:
        """Whether no scheduler will place it: it has a node already, as static and mirror pods do."""
        return bool(self.spec.get("nodeName"))


def _read_containers(reader: _Reader, spec: dict[str, Any], field: str) -> Iterator[Container]:
    for path, item in reader.items(spec, SPEC / field):
        name = reader.text(item, path / "name")
        if item.get("name") in (None, ""):
            reader.problem(path / "name", "is missing; every container has a name")
        elif name and not is_dns_label(name):
            reader.problem(
                path / "name", "must be at most 63 lower-case letters, digits and dashes, without a dash at either end"
            )
        resources = reader.mapping(item, path / "resources")
        limits = reader.mapping(resources, path / "resources" / "limits")
        requests = reader.mapping(resources, path / "resources" / "requests")
        claims = []
        for claim_path, claim in reader.items(resources, path / "resources" / "claims"):
            reader.text(claim, claim_path / "name")
            reader.text(claim, claim_path / "request")
            claims.append(claim)
        restart = reader.text(item, path / "restartPolicy")
        kind: ContainerKind = "container" if field == "containers" else "sidecar" if restart == "Always" else "init"
        yield Container(name, path, kind, limits, requests, tuple(claims))


def has_pod_constraints_shape(node_selector: Any, terms: Any) -> bool:
    """Whether these could be a pod's `nodeSelector` and `nodeSelectorTerms`."""
    reader = _Reader()
    affinity: Any = {"nodeSelectorTerms": terms}
    for field in reversed(REQUIRED):
        affinity = {field: affinity}
    spec = {"nodeSelector": node_selector, **affinity}
    reader.texts(spec, SPEC / "nodeSelector")
    _read_affinity(reader, spec)
    return not reader.problems


def _read_affinity(reader: _Reader, spec: dict[str, Any]) -> None:
    path = SPEC
    required = spec
    for field in REQUIRED:
        path /= field
        required = reader.mapping(required, path)
    for term_path, term in reader.items(required, path / "nodeSelectorTerms"):
        for field in ("matchExpressions", "matchFields"):
            for expression_path, expression in reader.items(term, term_path / field):
                reader.text(expression, expression_path / "key")
                reader.text(expression, expression_path / "operator")
                reader.strings(expression, expression_path / "values")


class _Reader:
    """Reads fields and collects what has the wrong shape; null counts as absent, as in Kubernetes."""

    def __init__(self) -> None:
        self.problems: list[tuple[FieldPath, str]] = []

    def problem(self, path: FieldPath, sentence: str) -> None:
        self.problems.append((path, sentence))

    def mapping(self, parent: Any, path: FieldPath) -> dict[str, Any]:
        value = self._value(parent, path)
        if isinstance(value, dict):
            return value
        if value is not None:
            self.problem(path, f"is {_shape(value)}; it must be a mapping")
        return {}

    def items(self, parent: Any, path: FieldPath) -> list[tuple[FieldPath, dict[str, Any]]]:
        value = self._value(parent, path)
        if value is None:
            return []
        if not isinstance(value, list):
            self.problem(path, f"is {_shape(value)}; it must be a list")
            return []
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                self.problem(path / index, f"is {_shape(item)}; it must be a mapping")
        return [(path / index, item) for index, item in enumerate(value) if isinstance(item, dict)]

    def text(self, parent: Any, path: FieldPath) -> str:
        value = self._value(parent, path)
        if isinstance(value, str):
            return value
        if value is not None:
            self.problem(path, f"is {_shape(value)}; it must be text")
        return ""

    def texts(self, parent: Any, path: FieldPath) -> None:
        for key, value in self.mapping(parent, path).items():
            if not isinstance(value, str):
                self.problem(path / key, f"is {_shape(value)}; it must be text, in quotes")

    def strings(self, parent: Any, path: FieldPath) -> None:
        value = self._value(parent, path)
        if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            self.problem(path, "must be a list of texts")

    @staticmethod
    def _value(parent: Any, path: FieldPath) -> Any:
        return parent.get(path[-1]) if isinstance(parent, dict) else None


def _shape(value: Any) -> str:
    match value:
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case None:
            return "null"
        case _:
            return "a mapping"
