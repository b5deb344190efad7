"""What is under review: the containers of a pod that is created, or its new ephemeral containers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.access.environment import Variable, expanded, read_environment
from policies.access.host_paths import HostMount, normalised
from policies.access.node_places import NodePlaces, node_places
from policies.checks import Problem, problem
from policies.decision import Severity
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import shown
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.resources import asks_for_gpu

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView

__all__ = ["HARMLESS", "VISIBLE_DEVICES", "Container", "Subject"]

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"

HARMLESS = ("", "void", "none")
"""The values that give a container no GPU.

Source: nvidia-container-toolkit internal/config/image/devices.go.
"""

_NO_CLAIMS: frozenset[str] = frozenset()

_LISTS = (
    ("initContainers", "init container"),
    ("containers", "container"),
    ("ephemeralContainers", "ephemeral container"),
)


@dataclass(frozen=True, slots=True)
class Container:
    """A container of any kind, as it is written: the API server checks its shape, and what has none is passed over."""

    fields: dict[str, Any]
    list_name: str
    """`containers`, `initContainers` or `ephemeralContainers`."""
    index: int
    kind: str
    """For messages: `container`, `init container`, `sidecar` or `ephemeral container`."""
    claims: frozenset[str]
    """The names of the pod's claims."""
    environment: dict[str, Variable]
    """The variables that its `env` sets."""

    @property
    def path(self) -> FieldPath:
        """Where in the pod it is."""
        return FieldPath(("spec", self.list_name, self.index))

    @property
    def name(self) -> str:
        """Its name, empty where it has none."""
        name = self.fields.get("name")
        return name if isinstance(name, str) else ""

    @property
    def title(self) -> str:
        """How messages call it: `init container "setup"`."""
        return f"{self.kind} {shown(self.name)}"

    @property
    def asks_for_gpu(self) -> bool:
        """Whether it gets GPUs from the scheduler: by a resource that is not zero, or by a claim of the pod."""
        resources = self.fields.get("resources")
        if not isinstance(resources, dict):
            return False
        for part in ("limits", "requests"):
            amounts = resources.get(part)
            for name, amount in amounts.items() if isinstance(amounts, dict) else ():
                if isinstance(name, str) and asks_for_gpu(name) and not _is_zero(amount):
                    return True
        claims = resources.get("claims")
        names = (lookup(claim, ("name",)) for claim in (claims if isinstance(claims, list) else ()))
        return any(isinstance(name, str) and name in self.claims for name in names)

    @property
    def sees_nothing(self) -> bool:
        """Whether it says itself that it wants no GPU, whatever its image says."""
        variable = self.environment.get(VISIBLE_DEVICES)
        return variable is not None and variable.value in HARMLESS

    def items(self, field: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """The mappings in one of its lists, with their indexes."""
        listed = self.fields.get(field)
        for index, item in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(item, dict):
                yield index, item

    def host_mounts(self, volumes: dict[str, str]) -> Iterator[HostMount]:
        """What it mounts of the hostPath volumes, given by name with their paths."""
        for index, mount in self.items("volumeMounts"):
            name = mount.get("name")
            volume = volumes.get(name) if isinstance(name, str) else None
            if volume is None:
                continue
            source = normalised(f"{volume}/{self._sub_path(mount)}")
            yield HostMount(self.path / "volumeMounts" / index, source, mount.get("readOnly") is True)

    def _sub_path(self, mount: dict[str, Any]) -> str:
        """The part of a volume that is mounted; up to the first variable whose value is not known."""
        expression, text = mount.get("subPathExpr"), mount.get("subPath")
        if not isinstance(expression, str) or not expression:
            return text if isinstance(text, str) else ""
        known = expanded(expression, self.environment)
        return expression.partition("$(")[0].rpartition("/")[0] if known is None else known


@dataclass(frozen=True)
class Subject:
    """Containers under review, with the facts to judge them by."""

    annotations: dict[Any, Any]
    """The pod's annotations, as they are written."""
    spec: dict[str, Any]
    containers: tuple[Container, ...]
    """Those under review."""
    created: bool
    """Whether the whole pod is; else ephemeral containers are added to one that runs."""
    namespace: str
    view: ClusterView
    settings: GPUAdmissionPolicy

    @classmethod
    def of(cls, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Subject | None:
        """What a request puts under review; None where that is nothing."""
        if request.kind != "Pod" or request.group:
            return None
        created = (request.operation, request.subresource) == ("CREATE", "")
        if not created and (request.operation, request.subresource) != ("UPDATE", "ephemeralcontainers"):
            return None
        spec = lookup(request.object, ("spec",))
        if not isinstance(spec, dict):
            return None
        containers = _read_containers(spec, _LISTS if created else _LISTS[2:])
        if not created:
            before = _read_containers(lookup(request.old_object, ("spec",)), _LISTS[2:])
            known = {container.name: container.fields for container in before}
            containers = (container for container in containers if container.fields != known.get(container.name))
        annotations = lookup(request.object, ("metadata", "annotations"))
        annotated = annotations if isinstance(annotations, dict) else {}
        return cls(annotated, spec, tuple(containers), created, request.namespace, view, settings)

    @property
    def severity(self) -> Severity:
        """What the administrator wants of what is found."""
        return Severity(self.settings.access.mode)

    @cached_property
    def host_mounts(self) -> tuple[tuple[Container, HostMount], ...]:
        """What the containers mount of the node."""
        volumes = dict(_host_volumes(self.spec.get("volumes")))
        if not volumes:
            return ()
        return tuple((container, mount) for container in self.containers for mount in container.host_mounts(volumes))

    @property
    def node_places(self) -> NodePlaces:
        """Where on the nodes of this cluster GPUs are."""
        return self.view.derive(node_places)

    def problem(self, path: FieldPath, message: str, remedy: str | None = None) -> Problem:
        """A problem as severe as the administrator wants it."""
        return problem(path, message, remedy, severity=self.severity)


def _read_containers(spec: Any, lists: tuple[tuple[str, str], ...]) -> Iterator[Container]:
    if not isinstance(spec, dict):
        return
    claims = spec.get("resourceClaims")
    names = [lookup(claim, ("name",)) for claim in claims] if isinstance(claims, list) else []
    claimed = frozenset(name for name in names if isinstance(name, str)) if names else _NO_CLAIMS
    for list_name, kind in lists:
        listed = spec.get(list_name)
        for index, fields in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(fields, dict):
                sidecar = list_name == "initContainers" and fields.get("restartPolicy") == "Always"
                environment = read_environment(fields.get("env"))
                yield Container(fields, list_name, index, "sidecar" if sidecar else kind, claimed, environment)


def _host_volumes(volumes: Any) -> Iterator[tuple[str, str]]:
    for volume in volumes if isinstance(volumes, list) else ():
        source = volume.get("hostPath") if isinstance(volume, dict) else None
        if source is None:
            continue
        name, path = volume.get("name"), lookup(source, ("path",))
        if isinstance(name, str) and isinstance(path, str):
            yield name, path


def _is_zero(amount: Any) -> bool:
    try:
        return parse_quantity(amount) == 0
    except QuantityError:
        return False
