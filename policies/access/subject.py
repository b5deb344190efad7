"""What is under review: the containers of a pod that is created, or its new ephemeral containers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from policies.access.claims import PodClaims, can_bring_gpu
from policies.access.device_lists import devices_given
from policies.access.environment import Variable, expanded, read_environment
from policies.access.host_paths import HostMount, normalised
from policies.access.node_places import NodePlaces, node_places
from policies.checks import Problem, problem
from policies.decision import Severity
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import shown
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.resources import IMPLICIT_PREFIX, parse_resource
from policies.view import UNKNOWN, ClusterView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy

__all__ = ["VISIBLE_DEVICES", "Container", "Subject"]

VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"

_LONGEST_PATH = 4096
"""Characters of a path that Linux opens (PATH_MAX). Many mounts of a longer one would otherwise take minutes."""

_LISTS = (
    ("initContainers", "init container"),
    ("containers", "container"),
    ("ephemeralContainers", "ephemeral container"),
)


@dataclass(frozen=True)
class Container:
    """A container of any kind, as it is written: the API server checks its shape, and what has none is passed over."""

    fields: dict[str, Any]
    list_name: str
    """`containers`, `initContainers` or `ephemeralContainers`."""
    index: int
    kind: str
    """For messages: `container`, `init container`, `sidecar` or `ephemeral container`."""
    asks_for_gpu: bool
    """Whether it gets GPUs from the scheduler: by a resource that is not zero, or by a claim that can bring some."""
    asks_device_plugin: bool
    """Whether it asks for a resource of the device plugin, which says which GPUs by NVIDIA_VISIBLE_DEVICES."""

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
    def sees_nothing(self) -> bool:
        """Whether it says itself that it wants no GPU, whatever its image says."""
        variable = self.variable(VISIBLE_DEVICES)
        return variable is not None and variable.value is not None and not devices_given(variable.value)

    @cached_property
    def environment(self) -> dict[str, Variable]:
        """The variables that its `env` sets."""
        return read_environment(self.fields.get("env"))

    def variable(self, name: str) -> Variable | None:
        """One of these variables; most containers set none that matters, and then the values are not read."""
        return self.environment.get(name) if name in self._variable_names else None

    @cached_property
    def _variable_names(self) -> set[str]:
        env = self.fields.get("env")
        entries = [entry for entry in env if isinstance(entry, dict)] if isinstance(env, list) else []
        return {name for entry in entries if isinstance(name := entry.get("name"), str)}

    def items(self, field: str) -> Iterator[tuple[int, dict[str, Any]]]:
        """The mappings in one of its lists, with their indexes."""
        listed = self.fields.get(field)
        for index, item in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(item, dict):
                yield index, item

    def host_mounts(self, volumes: dict[str, str]) -> Iterator[HostMount]:
        """What it mounts of the hostPath volumes, given by name with their normalised paths."""
        for index, mount in self.items("volumeMounts"):
            name = mount.get("name")
            volume = volumes.get(name) if isinstance(name, str) else None
            if volume is None:
                continue
            part = self._sub_path(mount)
            source = normalised(f"{volume}/{part}") if part else volume
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
        containers = _read_containers(spec, _LISTS if created else _LISTS[2:], request.namespace, view)
        if not created:
            before = _read_containers(lookup(request.old_object, ("spec",)), _LISTS[2:], request.namespace, view)
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


def _read_containers(
    spec: Any, lists: tuple[tuple[str, str], ...], namespace: str, view: ClusterView
) -> Iterator[Container]:
    if not isinstance(spec, dict):
        return
    claims = PodClaims(spec.get("resourceClaims"), namespace, view)
    for list_name, kind in lists:
        listed = spec.get(list_name)
        for index, fields in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(fields, dict):
                sidecar = list_name == "initContainers" and fields.get("restartPolicy") == "Always"
                kind_here = "sidecar" if sidecar else kind
                yield Container(fields, list_name, index, kind_here, *_asks(fields.get("resources"), claims))


def _asks(resources: Any, claims: PodClaims) -> tuple[bool, bool]:
    """Whether a container asks for GPUs at all, and whether the device plugin gives them."""
    if not isinstance(resources, dict):
        return False, False
    wanted = set(_wanted(resources))
    if any(parse_resource(name) is not None for name in wanted):
        return True, True
    by_class = any(_stands_for_class(name, claims.view) for name in wanted)
    return by_class or ("claims" in resources and claims.can_bring_gpu(resources["claims"])), False


def _wanted(resources: dict[str, Any]) -> Iterator[str]:
    """The extended resources that are not zero."""
    for part in ("limits", "requests"):
        amounts = resources.get(part)
        for name, amount in amounts.items() if isinstance(amounts, dict) else ():
            if isinstance(name, str) and "/" in name and not _is_zero(amount):
                yield name


def _stands_for_class(resource: str, view: ClusterView) -> bool:
    """Whether devices of a DeviceClass are asked for that can be GPUs."""
    if resource.startswith(IMPLICIT_PREFIX):
        return can_bring_gpu(resource.removeprefix(IMPLICIT_PREFIX))
    return resource in view.derive(_resources_of_classes)


def _resources_of_classes(view: ClusterView) -> frozenset[str]:
    """The extended resources that stand for DeviceClasses whose devices can be GPUs."""
    classes = view.list("DeviceClass")
    can_bring = (each for each in (() if classes is UNKNOWN else classes) if can_bring_gpu(name_of(each)))
    names = (lookup(each, ("spec", "extendedResourceName")) for each in can_bring)
    return frozenset(name for name in names if isinstance(name, str))


def _host_volumes(volumes: Any) -> Iterator[tuple[str, str]]:
    for volume in volumes if isinstance(volumes, list) else ():
        source = volume.get("hostPath") if isinstance(volume, dict) else None
        if source is None:
            continue
        name, path = volume.get("name"), lookup(source, ("path",))
        if isinstance(name, str) and isinstance(path, str):
            place = normalised(path)
            if len(place) <= _LONGEST_PATH:
                yield name, place


def _is_zero(amount: Any) -> bool:
    try:
        return parse_quantity(amount) == 0
    except QuantityError:
        return False
