"""Pods: the parts of their shape that policies read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from policies.kubernetes.names import is_dns_label, shown
from policies.kubernetes.nodes import REQUIRED
from policies.kubernetes.objects import FieldPath, controller_of, items_at, lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object


SPEC = FieldPath(["spec"])
_METADATA = FieldPath(["metadata"])

ContainerKind = Literal["container", "init", "sidecar"]

_TEXTS = {
    "tolerations": ("key", "operator", "effect"),
    "resourceClaims": ("name", "resourceClaimTemplateName", "resourceClaimName"),
}
"""Lists of a pod's spec, and the fields of their items that are texts."""
_CLAIM_TEXTS = ("name", "request")
"""The same of a container's `resources.claims`."""


def resources_in_claim(status: Any) -> frozenset[str]:
    """The extended resources of a pod that its scheduler-made claim holds, not the device plugin.

    Source: k8s.io/api/core/v1/types.go PodExtendedResourceClaimStatus.
    """
    mappings = items_at(status, ("extendedResourceClaimStatus", "requestMappings"))
    found = (lookup(each, ("resourceName",)) for each in mappings)
    return frozenset(name for name in found if isinstance(name, str))


class MalformedPodError(ValueError):
    """The object does not have a pod's shape; `problems` holds paths, messages and remedies."""

    def __init__(self, problems: list[tuple[FieldPath, str, str]]) -> None:
        self.problems = problems
        super().__init__("; ".join(f"{path} {message}; {remedy}" for path, message, remedy in problems))


@dataclass(frozen=True, slots=True)
class Container:
    """A container or init container of a pod, and what it requests."""

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

        The API server has done so before it calls a webhook; a file on disk has not been validated.

        Raises:
            MalformedPodError: with everything that is wrong.
        """
        reader = _Reader()
        fields = document if isinstance(document, dict) else {}
        metadata = reader.mapping(fields, _METADATA)
        for key in ("labels", "annotations"):
            reader.all_texts(metadata, (_METADATA, key))
        for place, item in reader.items(metadata, (_METADATA, "ownerReferences")):
            reader.texts(item, place, ("kind",))
        spec = reader.mapping(fields, SPEC)
        reader.all_texts(spec, (SPEC, "nodeSelector"))
        reader.texts(spec, SPEC, ("nodeName", "schedulerName"))
        for key, texts in _TEXTS.items():
            if _have_texts(spec.get(key), texts):
                continue
            for place, item in reader.items(spec, (SPEC, key)):
                reader.texts(item, place, texts)
        _read_affinity(reader, spec)
        init_containers = tuple(_read_containers(reader, spec, "initContainers"))
        containers = tuple(_read_containers(reader, spec, "containers"))
        names: set[str] = set()
        for container in (*init_containers, *containers):
            if container.name and container.name in names:
                reader.problem(
                    container.path / "name", f'"{container.name}" names another container already', "write another name"
                )
            names.add(container.name)
        if not containers and not reader.problems:
            reader.problem(SPEC / "containers", "is empty", "add a container")
        if reader.problems:
            raise MalformedPodError(reader.problems)
        return cls(document, containers, init_containers)

    @cached_property
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
    def used_claims(self) -> frozenset[Any]:
        """The names of the claims that containers refer to."""
        return frozenset(claim.get("name") for container in self.all_containers for claim in container.claims)

    @property
    def controller_kind(self) -> str:
        """The kind of the controller that owns the pod; empty for a bare pod."""
        owner = controller_of(self.document)
        return "" if owner is None else str(owner.get("kind"))

    @property
    def is_past_scheduling(self) -> bool:
        """True if no scheduler will place it: it has a node already, as static and mirror pods do."""
        return bool(self.spec.get("nodeName"))


def _read_containers(reader: _Reader, spec: dict[str, Any], field: str) -> Iterator[Container]:
    for place, item in reader.items(spec, (SPEC, field)):
        path = _path(place)
        name = reader.text(item, (path, "name"))
        if item.get("name") in (None, ""):
            reader.problem((path, "name"), "is missing", "write a name")
        elif name and not is_dns_label(name):
            reader.problem(
                (path, "name"),
                f"is {shown(name)}",
                "write at most 63 lower-case letters, digits and dashes, without a dash at either end",
            )
        resources_place = (path, "resources")
        resources = reader.mapping(item, resources_place)
        limits = reader.mapping(resources, (resources_place, "limits"))
        requests = reader.mapping(resources, (resources_place, "requests"))
        claims: list[dict[str, Any]] = resources.get("claims", [])
        if not _have_texts(claims, _CLAIM_TEXTS):
            claims = []
            for claim_place, claim in reader.items(resources, (resources_place, "claims")):
                reader.texts(claim, claim_place, _CLAIM_TEXTS)
                claims.append(claim)
        restart = reader.text(item, (path, "restartPolicy"))
        kind: ContainerKind = "container" if field == "containers" else "sidecar" if restart == "Always" else "init"
        yield Container(name, path, kind, limits, requests, tuple(claims))


def _have_texts(items: Any, keys: tuple[str, ...]) -> bool:
    """True if a list is as it should be. Nearly all are, and a pod may have 20,000 claims."""
    if not isinstance(items, list) or {type(item) for item in items} - {dict}:
        return False
    return {type(item.get(key, "")) for key in keys for item in items} <= {str}


def has_pod_constraints_shape(node_selector: Any, terms: Any) -> bool:
    """True if these could be a pod's `nodeSelector` and `nodeSelectorTerms`."""
    reader = _Reader()
    affinity: Any = {"nodeSelectorTerms": terms}
    for field in reversed(REQUIRED):
        affinity = {field: affinity}
    spec = {"nodeSelector": node_selector, **affinity}
    reader.all_texts(spec, (SPEC, "nodeSelector"))
    _read_affinity(reader, spec)
    return not reader.problems


def _read_affinity(reader: _Reader, spec: dict[str, Any]) -> None:
    if spec.get("affinity") is None:
        return
    place: _Place = SPEC
    required = spec
    for field in REQUIRED:
        place = (place, field)
        required = reader.mapping(required, place)
    for term_place, term in reader.items(required, (place, "nodeSelectorTerms")):
        for field in ("matchExpressions", "matchFields"):
            for at, expression in reader.items(term, (term_place, field)):
                reader.texts(expression, at, ("key", "operator"))
                reader.strings(expression, (at, "values"))


_Place = FieldPath | tuple["_Place", str | int]
"""Where something is: a path, or a place and one step on. Paths are made only for what is reported."""


def _path(place: _Place) -> FieldPath:
    steps: list[str | int] = []
    while not isinstance(place, FieldPath):
        place, step = place
        steps.append(step)
    return FieldPath((*place, *reversed(steps)))


class _Reader:
    """Reads fields and collects what has the wrong shape; null counts as absent, as in Kubernetes.

    The last step of a place is the field of `parent` that is read.
    """

    def __init__(self) -> None:
        self.problems: list[tuple[FieldPath, str, str]] = []

    def problem(self, place: _Place, message: str, remedy: str) -> None:
        self.problems.append((_path(place), message, remedy))

    def mapping(self, parent: dict[Any, Any], place: _Place) -> dict[str, Any]:
        value = parent.get(place[-1])
        if isinstance(value, dict):
            return value
        if value is not None:
            self.problem(place, f"is {_shape(value)}", "write it as a mapping")
        return {}

    def items(self, parent: dict[Any, Any], place: _Place) -> Iterator[tuple[_Place, dict[str, Any]]]:
        value = parent.get(place[-1])
        if isinstance(value, list):
            for index, item in enumerate(value):
                if isinstance(item, dict):
                    yield (place, index), item
                else:
                    self.problem((place, index), f"is {_shape(item)}", "write it as a mapping")
        elif value is not None:
            self.problem(place, f"is {_shape(value)}", "write it as a list")

    def text(self, parent: dict[Any, Any], place: _Place) -> str:
        value = parent.get(place[-1])
        if isinstance(value, str):
            return value
        if value is not None:
            self.problem(place, f"is {_shape(value)}", "write it as text")
        return ""

    def texts(self, parent: dict[str, Any], place: _Place, keys: tuple[str, ...]) -> None:
        for key in keys:
            if not isinstance(parent.get(key, ""), str):
                self.text(parent, (place, key))

    def all_texts(self, parent: dict[Any, Any], place: _Place) -> None:
        for key, value in self.mapping(parent, place).items():
            if not isinstance(value, str):
                self.problem((place, key), f"is {_shape(value)}", "write it as text, in quotes")

    def strings(self, parent: dict[Any, Any], place: _Place) -> None:
        value = parent.get(place[-1])
        if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            self.problem(place, "is not a list of texts", "write it as a list of texts")


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
