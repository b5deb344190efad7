"""The subject of the access checks: containers, their environment, and the devices that they name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.access.node_places import HostMount, NodePlaces, node_places, normalised_path
from policies.fleet import GPUAccess, RequestKind, container_requests
from policies.kubernetes.names import shown
from policies.kubernetes.objects import FieldPath, lookup
from policies.nvidia.container_toolkit import VISIBLE_DEVICES, parse_device_list
from policies.nvidia.pod_conditions import changed_cdi_annotations, changed_images
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.fleet import GPURequest, Loss
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy


_REFERENCE = re.compile(r"\$(?:\$|\(([^()]*)\))")

_LONGEST = 4096
"""Characters of an expanded value. Variables that double each other would otherwise grow without bound."""


class Variable(NamedTuple):
    """A variable that `env` sets."""

    entry: int
    """The index in `env` of the entry that counts."""
    value: str | None
    """None if it is known only on the node."""


def read_environment(env: Any) -> dict[str, Variable]:
    """The variables of `env`, by name; the last entry wins, and `$(NAME)` refers to earlier ones.

    If a value refers to a variable that `env` does not set, the value is unknown: the variable may come from `envFrom` or
    a Service.

    Source: k8s.io/kubernetes pkg/kubelet/kubelet_pods.go makeEnvironmentVariables.
    """
    variables: dict[str, Variable] = {}
    for index, entry in enumerate(env if isinstance(env, list) else ()):
        if not isinstance(entry, dict):
            continue
        name, value = entry.get("name"), entry.get("value")
        if not isinstance(name, str):
            continue
        if value in (None, ""):
            known = "" if entry.get("valueFrom") is None else None
        elif isinstance(value, str):
            known = expand_references(value, variables) if "$" in value else value
        else:
            known = None
        variables[name] = Variable(index, known)
    return variables


def expand_references(text: str, variables: Mapping[str, Variable]) -> str | None:
    """The text with `$(NAME)` and `$$` replaced; None if a reference is unknown or the result is too long.

    Source: k8s.io/kubernetes third_party/forked/golang/expansion.
    """
    parts: list[str] = []
    length = end = 0
    for reference in _REFERENCE.finditer(text):
        name = reference.group(1)
        value = "$" if name is None else variables[name].value if name in variables else None
        if value is None:
            return None
        parts += (text[end : reference.start()], value)
        end = reference.end()
        length += len(parts[-2]) + len(value)
        if length > _LONGEST:
            return None
    return "".join((*parts, text[end:]))


_LONGEST_PATH = 4096
"""Characters of a path that Linux opens (PATH_MAX). Many mounts of a longer one would otherwise take minutes."""

_LISTS = (
    ("initContainers", "init container"),
    ("containers", "container"),
    ("ephemeralContainers", "ephemeral container"),
)


@dataclass(frozen=True)
class PodRequests:
    """The GPU requests of a pod, found when a rule first needs them: most pods show no sign of access."""

    pod: Object | None
    namespace: str
    view: ClusterView
    settings: GPUAdmissionPolicy

    @cached_property
    def by_container(self) -> Mapping[FieldPath, tuple[GPURequest, ...]]:
        """The requests of each container, by its path."""
        if self.pod is None:
            return {}
        return container_requests(self.pod, self.namespace, self.view, self.settings)


@dataclass(frozen=True)
class Container:
    """A container of any kind, as it is written; the API server validates its shape."""

    fields: dict[str, Any]
    list_name: str
    """`containers`, `initContainers` or `ephemeralContainers`."""
    index: int
    kind: str
    """For messages: `container`, `init container`, `sidecar` or `ephemeral container`."""
    pod_requests: PodRequests

    @cached_property
    def gpu_requests(self) -> tuple[GPURequest, ...]:
        """Its requests for GPUs, or for devices that could be GPUs, also those without which it starts.

        While the DeviceClasses cannot be listed, extended resources of other vendors do not count.
        """
        return tuple(each for each in self.pod_requests.by_container.get(self.path, ()) if not each.is_unlisted)

    @cached_property
    def access(self) -> GPUAccess:
        """Its access to GPUs by these requests."""
        return GPUAccess.of_all(each.access for each in self.gpu_requests)

    @property
    def gets_gpu_whatever_changes(self) -> bool:
        """True if it never starts without a GPU, even if claims and templates are replaced before it starts.

        The author of the pod may delete a claim and create another of its name that has no devices, while a scheduling
        gate holds the pod back. DeviceClasses belong to administrators.
        """
        return any(
            each.access is GPUAccess.CERTAIN and each.kind is not RequestKind.CLAIM for each in self.gpu_requests
        )

    @property
    def requests_gpu(self) -> bool:
        """True if it requests a device that is a GPU, could be one, or is not known.

        A request without which the pod starts does not count.
        """
        return self.access is not GPUAccess.NONE

    @property
    def uses_device_plugin(self) -> bool:
        """True if it requests a resource of the device plugin, which sets NVIDIA_VISIBLE_DEVICES."""
        return any(
            each.kind is RequestKind.DEVICE_PLUGIN and each.access is not GPUAccess.NONE for each in self.gpu_requests
        )

    @cached_property
    def loss(self) -> Loss | None:
        """The reason for which it starts, or may start, without a GPU that it requests; None if it does not."""
        return next((each.loss for each in self.gpu_requests if each.loss is not None), None)

    @property
    def lack(self) -> str:
        """The reason for which it gets no GPU, as a predicate of the container."""
        return "requests no GPU" if self.loss is None else f"gets no {self.loss.text}"

    @property
    def doubt(self) -> str:
        """The reason for which its requests may give it no GPU, as a clause about the container."""
        if self.access is GPUAccess.NONE:
            return f"which {self.lack}"
        if self.loss is not None and self.access is GPUAccess.POSSIBLE:
            return f"which may get no {self.loss.text}"
        if self.access is GPUAccess.CERTAIN:
            return "whose claim can be replaced before it starts"
        if self.access is GPUAccess.POSSIBLE:
            return "whose request can give it a device that is no GPU"
        unseen = next((each for request in self.gpu_requests for each in request.unseen), None)
        if unseen is None:
            return "whose claim names no object"
        kind, name = unseen
        return f"whose request cannot be judged because {kind} {shown(name)} is missing or cannot be seen"

    @property
    def path(self) -> FieldPath:
        """Its path in the pod."""
        return FieldPath(("spec", self.list_name, self.index))

    @property
    def name(self) -> str:
        """Its name; empty if it has none."""
        name = self.fields.get("name")
        return name if isinstance(name, str) else ""

    @property
    def title(self) -> str:
        """Its kind and name for messages: `init container "setup"`."""
        return f"{self.kind} {shown(self.name)}"

    @property
    def sees_nothing(self) -> bool:
        """True if its own NVIDIA_VISIBLE_DEVICES names no GPU, which overrides that of its image."""
        variable = self.variable(VISIBLE_DEVICES)
        return variable is not None and variable.value is not None and not parse_device_list(variable.value)

    @cached_property
    def environment(self) -> dict[str, Variable]:
        """The variables that its `env` sets."""
        return read_environment(self.fields.get("env"))

    def variable(self, name: str) -> Variable | None:
        """One variable of its `env`. Values are read only if the container sets the variable, which few do."""
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
        """Its mounts of hostPath volumes, given by name with their normalised paths."""
        for index, mount in self.items("volumeMounts"):
            name = mount.get("name")
            volume = volumes.get(name) if isinstance(name, str) else None
            if volume is None:
                continue
            part = self._sub_path(mount)
            source = normalised_path(f"{volume}/{part}") if part else volume
            yield HostMount(self.path / "volumeMounts" / index, source, mount.get("readOnly") is True)

    def _sub_path(self, mount: dict[str, Any]) -> str:
        """The sub-path of a volume that is mounted, up to the first variable whose value is unknown."""
        expression, text = mount.get("subPathExpr"), mount.get("subPath")
        if not isinstance(expression, str) or not expression:
            return text if isinstance(text, str) else ""
        known = expand_references(expression, self.environment)
        return expression.partition("$(")[0].rpartition("/")[0] if known is None else known


@dataclass(frozen=True)
class Subject:
    """Containers under review, with the facts that the rules need."""

    annotations: Mapping[Any, Any]
    """The annotations under review: of a new pod all, of an existing one those that the update adds or changes."""
    spec: dict[str, Any]
    containers: tuple[Container, ...]
    """The containers under review; none if only images or annotations of a pod change."""
    images: tuple[Container, ...]
    """The containers whose images are under review."""
    pod_containers: tuple[Container, ...]
    """The containers of the pod; of ephemeral ones only those that are under review."""
    is_created: bool
    """True if the pod is created; False if it exists."""
    namespace: str
    view: ClusterView
    settings: GPUAdmissionPolicy

    @classmethod
    def of(cls, request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Subject | None:
        """The parts of a pod that a request creates or changes; None if there are none."""
        if request.kind != "Pod" or request.group:
            return None
        spec = lookup(request.object, ("spec",))
        if not isinstance(spec, dict):
            return None
        requests = PodRequests(request.object, request.namespace, view, settings)
        annotations: Any = {}
        pod_containers: tuple[Container, ...] = ()
        match request.operation, request.subresource:
            case "CREATE", "":
                annotations = lookup(request.object, ("metadata", "annotations"))
                containers = images = pod_containers = tuple(_read_containers(spec, _LISTS, requests))
            case "UPDATE", "ephemeralcontainers":
                before = _read_containers(lookup(request.old_object, ("spec",)), _LISTS[2:], requests)
                known = {each.name: each.fields for each in before}
                added = _read_containers(spec, _LISTS[2:], requests)
                containers = images = tuple(each for each in added if each.fields != known.get(each.name))
                pod_containers = (*_read_containers(spec, _LISTS[:2], requests), *images)
            case "UPDATE", "":
                annotations = changed_cdi_annotations(request.object, request.old_object)
                changed = changed_images(request.object, request.old_object)
                pod_containers = tuple(_read_containers(spec, _LISTS[:2], requests))
                containers = ()
                images = tuple(each for each in pod_containers if (each.list_name, each.index) in changed)
            case _:
                return None
        annotated = annotations if isinstance(annotations, dict) else {}
        if not (containers or images or annotated):
            return None
        return cls(
            annotations=annotated,
            spec=spec,
            containers=containers,
            images=images,
            pod_containers=pod_containers,
            is_created=request.operation == "CREATE",
            namespace=request.namespace,
            view=view,
            settings=settings,
        )

    @property
    def severity(self) -> Severity:
        """The severity that `access.mode` sets."""
        return Severity(self.settings.access.mode)

    @cached_property
    def host_mounts(self) -> tuple[tuple[Container, HostMount], ...]:
        """The mounts of paths of the node, each with its container."""
        volumes = dict(_host_volumes(self.spec.get("volumes")))
        if not volumes:
            return ()
        return tuple((container, mount) for container in self.containers for mount in container.host_mounts(volumes))

    @property
    def node_places(self) -> NodePlaces:
        """The places of GPUs on the nodes of this cluster."""
        return self.view.derive(node_places)

    def problem(self, path: FieldPath, message: str, remedy: str | None = None) -> Problem:
        """A problem with the severity of `access.mode`."""
        return Problem(path, message, remedy, severity=self.severity)


def _read_containers(spec: Any, lists: tuple[tuple[str, str], ...], requests: PodRequests) -> Iterator[Container]:
    if not isinstance(spec, dict):
        return
    for list_name, kind in lists:
        listed = spec.get(list_name)
        for index, fields in enumerate(listed if isinstance(listed, list) else ()):
            if isinstance(fields, dict):
                sidecar = list_name == "initContainers" and fields.get("restartPolicy") == "Always"
                yield Container(fields, list_name, index, "sidecar" if sidecar else kind, requests)


def _host_volumes(volumes: Any) -> Iterator[tuple[str, str]]:
    for volume in volumes if isinstance(volumes, list) else ():
        source = volume.get("hostPath") if isinstance(volume, dict) else None
        if source is None:
            continue
        name, path = volume.get("name"), lookup(source, ("path",))
        if isinstance(name, str) and isinstance(path, str):
            place = normalised_path(path)
            if len(place) <= _LONGEST_PATH:
                yield name, place


EXEMPT = "exempt monitoring agents in access.exemptServiceAccounts or access.exemptNamespaces"
"""The remedy for an administrator, if the access is intended."""


RECREATE = "keep what the pod has, or create another pod that requests nvidia.com/gpu: 1 in resources.limits"
"""The remedy for a change of a pod that exists: its requests cannot change."""


def request_or(container: Container, otherwise: str) -> str:
    """A remedy: request a GPU so that it is allocated, or `otherwise`; only that for ephemeral containers."""
    if container.list_name == "ephemeralContainers":
        return f"{otherwise}: an ephemeral container cannot request GPUs"
    if container.loss is not None:
        return f"remove {container.loss.field}, or {otherwise}"
    return f"request nvidia.com/gpu: 1 in resources.limits, or {otherwise}"


def is_exempt(subject: Subject) -> bool:
    """True if `access.exemptServiceAccounts` matches the pod's service account."""
    access, namespace = subject.settings.access, subject.namespace
    if not access.exempt_service_accounts:
        return False
    # `serviceAccount` is the old name of the field, still in use.
    names = (subject.spec.get("serviceAccountName"), subject.spec.get("serviceAccount"))
    account = next((name for name in names if isinstance(name, str) and name), "default")
    parts = (pattern.partition("/") for pattern in access.exempt_service_accounts)
    return any(fnmatchcase(namespace, where) and fnmatchcase(account, who) for where, _, who in parts)
