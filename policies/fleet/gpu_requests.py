"""GPU access: whether a request gives a container a GPU."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.fleet.known_classes import GPU_TYPES, has_nvidia_class_name, known_classes
from policies.fleet.pod_claims import pod_claims
from policies.kubernetes.bounds import Work
from policies.kubernetes.names import shown
from policies.kubernetes.neighbours import neighbour_of_scheduler
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.pods import resources_in_claim
from policies.kubernetes.quantities import quantity_or_none
from policies.nvidia.mig import IMPLICIT_PREFIX, is_for_machines, parse_resource
from policies.nvidia.pod_conditions import has_claims, requested_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.devices.resource_claims import DeviceRequest, Subrequest
    from policies.fleet.known_classes import KnownClasses
    from policies.fleet.pod_claims import PodClaim
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy


class GPUAccess(Enum):
    """The access of a container to a GPU by a request, if the pod is scheduled."""

    CERTAIN = "certain"
    """It gives at least one GPU."""
    POSSIBLE = "possible"
    """It gives a GPU or another device."""
    NONE = "none"
    """It gives no GPU."""
    UNKNOWN = "unknown"
    """It depends on an object that is missing or cannot be seen."""

    @classmethod
    def by(cls, types: frozenset[str] | None) -> GPUAccess:
        """The access that a device gives whose type is one of these; None if nothing is known of the device."""
        if types is None:
            return cls.UNKNOWN
        if types.isdisjoint(GPU_TYPES):
            return cls.NONE
        return cls.CERTAIN if types <= GPU_TYPES else cls.POSSIBLE

    @classmethod
    def of_one(cls, alternatives: Iterable[GPUAccess]) -> GPUAccess:
        """The access that one of several alternatives gives, whichever it is; none if there are none."""
        found = frozenset(alternatives)
        if len(found) <= 1:
            return next(iter(found), cls.NONE)
        return cls.POSSIBLE if cls.CERTAIN in found or cls.POSSIBLE in found else cls.UNKNOWN

    @classmethod
    def of_all(cls, parts: Iterable[GPUAccess]) -> GPUAccess:
        """The access that several requests give together; none if there are none."""
        found = frozenset(parts)
        return next((each for each in (cls.CERTAIN, cls.POSSIBLE, cls.UNKNOWN) if each in found), cls.NONE)


_WITH_RESOURCES = ("initContainers", "containers")
"""In the order in which they start. Ephemeral containers request nothing: the API server refuses resources for them."""
_MOST_TEXT = 12 * 1024
"""Characters of selectors that are read in the claims of a pod. Ignoring further selectors only counts more devices."""

_Unseen = tuple[tuple[str, str], ...]
"""Kinds and names of objects."""
_UNLISTED: _Unseen = (("DeviceClass", ""),)


class RequestKind(Enum):
    """The way in which a pod requests devices."""

    DEVICE_PLUGIN = "device plugin"
    """By a resource of NVIDIA's device plugin, such as `nvidia.com/gpu`; a DeviceClass can stand for it as well."""
    EXTENDED_RESOURCE = "extended resource"
    """By the `extendedResourceName` of a DeviceClass."""
    DEVICE_CLASS = "device class"
    """By the implicit name of a DeviceClass, `deviceclass.resource.kubernetes.io/...`."""
    CLAIM = "claim"
    """By an entry of `spec.resourceClaims`."""


class Loss(NamedTuple):
    """The reason for which a pod starts, or may start, without a device that it requests."""

    resource: str
    why: str
    """A clause in which `it` is the resource."""
    field: str
    """The field of the pod to remove."""

    @property
    def text(self) -> str:
        """The resource and the reason, to follow `gets no`."""
        return f"{shown(self.resource)} ({self.why})"


@dataclass(frozen=True, slots=True)
class GPURequest:
    """A request of a pod that gives it a GPU, or could: an extended resource of a container, or a claim."""

    kind: RequestKind
    name: str
    """The extended resource; of a claim, its name in `spec.resourceClaims`."""
    path: FieldPath
    """The amount of the resource, or the field that names the claim."""
    container: FieldPath | None
    """The container that requests the resource or refers to the claim; None for a claim of the pod as a whole."""
    access: GPUAccess
    """The access by the whole request. `NONE` only if `loss` is set."""
    unseen: _Unseen = ()
    """Kind and name of the objects on which an unknown access depends; no name if a kind cannot be listed."""
    by_request: Mapping[str, GPUAccess] | None = field(default=None, hash=False)
    """The access by each request of a claim, by its name; None if the claim is missing or unknown."""
    loss: Loss | None = None
    """The reason for which the pod starts, or may start, without the device; None if it does not."""

    @property
    def is_probable(self) -> bool:
        """True if it gives a GPU, or could; a class that cannot be seen counts if it is named like NVIDIA's."""
        if self.access is not GPUAccess.UNKNOWN:
            return True
        return any(kind == "DeviceClass" and has_nvidia_class_name(name) for kind, name in self.unseen)

    @property
    def is_unlisted(self) -> bool:
        """True for a resource that is unknown because the DeviceClasses cannot be listed."""
        return self.unseen == _UNLISTED

    def narrow(self, request: str, container: FieldPath) -> GPURequest:
        """The part of a claim that a container refers to: one request, or all of them if `request` is empty.

        Source: k8s.io/kubernetes pkg/kubelet/cm/dra/claiminfo.go cdiDevicesAsList.
        """
        if not request or self.by_request is None:
            return replace(self, container=container)
        return replace(self, container=container, access=self.by_request.get(request, GPUAccess.NONE))


def may_request_gpu(pod: Object) -> bool:
    """True if a pod requests any device, by an extended resource or a claim. Most pods do not.

    A name with a `/` counts as an extended resource, and so does a name such as `gpu`, which the API server refuses: the
    message then says the right one.

    The pod may have any shape. Nothing of the cluster is read.
    """
    return has_claims(pod) or any("/" in name or "gpu" in name.lower() for name in requested_names(pod))


def probably_gets_gpu(pod: Object, namespace: str, view: ClusterView) -> bool:
    """True if a pod gets a GPU, or could; a class that cannot be seen counts if it is named like NVIDIA's."""
    return any(each.is_probable for each in gpu_requests(pod, namespace, view))


def gpu_requests(pod: Object, namespace: str, view: ClusterView) -> Iterator[GPURequest]:
    """The requests of a pod that give it a GPU, or could, if it is scheduled.

    Extended resources come first, then claims.

    Args:
        pod: of any shape.
        namespace: where it is created.
        view: the cluster. It is read only for extended resources and claims, each when it is reached.
    """
    yield from extended_requests(pod, view)
    claims = _Claims(view)
    for claim in pod_claims(pod, namespace, view):
        found = claims.read(claim)
        if found.access is not GPUAccess.NONE:
            yield found


def extended_requests(pod: Object, view: ClusterView) -> Iterator[GPURequest]:
    """The extended resources above 0 of containers that give a GPU, or could, each once per container."""
    for listed, index, resources in _resources(pod):
        seen: set[str] = set()
        for section in ("limits", "requests"):
            amounts = resources.get(section)
            for name, amount in amounts.items() if isinstance(amounts, dict) else ():
                if not isinstance(name, str) or "/" not in name or name in seen or _is_zero(amount):
                    continue
                seen.add(name)
                kind, access, unseen = _of_resource(name, known_classes(view))
                if access is not GPUAccess.NONE:
                    container = FieldPath(("spec", listed, index))
                    path = FieldPath((*container, "resources", section, name))
                    yield GPURequest(kind, name, path, container, access, unseen)


def holds_gpu(pod: Object, view: ClusterView) -> bool:
    """True if a running pod requests an extended resource that gives it a GPU, or could.

    Those of virtual machines count: GPUs that are passed through, and vGPUs.
    """
    return any(map(is_for_machines, requested_names(pod))) or any(
        each.is_probable for each in extended_requests(pod, view)
    )


def gpu_access(
    pod: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy
) -> dict[FieldPath, GPUAccess]:
    """The access of each container by its path `spec.containers[0]`; arguments as of `container_requests`."""
    requests = container_requests(pod, namespace, view, settings)
    return {container: GPUAccess.of_all(each.access for each in found) for container, found in requests.items()}


def container_requests(
    pod: Object, namespace: str, view: ClusterView, settings: GPUAdmissionPolicy
) -> dict[FieldPath, tuple[GPURequest, ...]]:
    """The requests of each container for GPUs, or for devices that could be GPUs, by its path.

    Of a claim, only the part that the container refers to. Access is that of the started pod, so it depends on the
    scheduler, or on the node that the pod names.

    Args:
        pod: of any shape.
        namespace: where it is created.
        view: the cluster. Claims that no container refers to are not read.
        settings: the schedulers that make claims for extended resources.
    """
    extended: dict[FieldPath | None, list[GPURequest]] = {}
    for each in extended_requests(pod, view):
        extended.setdefault(each.container, []).append(_as_allocated(each, pod, view, settings))
    claims = _Claims(view)
    named = {claim.name: claim for claim in reversed(pod_claims(pod, namespace, view))}
    requests: dict[FieldPath, tuple[GPURequest, ...]] = {}
    for listed, index, resources in _resources(pod):
        container = FieldPath(("spec", listed, index))
        referred = (
            claims.read(named[name]).narrow(request, container)
            for name, request in _references(resources)
            if name in named
        )
        by_claim = (each for each in referred if each.access is not GPUAccess.NONE)
        requests[container] = (*extended.get(container, ()), *by_claim)
    return requests


def unmet_requests(pod: Object, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[GPURequest]:
    """The extended resources without which a pod certainly starts, although it requests them.

    Arguments as of `container_requests`.
    """
    for each in extended_requests(pod, view):
        allocated = _as_allocated(each, pod, view, settings)
        if allocated.access is GPUAccess.NONE:
            yield allocated


def _as_allocated(request: GPURequest, pod: Object, view: ClusterView, settings: GPUAdmissionPolicy) -> GPURequest:
    """The request for an extended resource, with the access of the started pod.

    Only a scheduler makes the claim for a DeviceClass, and not every scheduler does. A pod that names its node passes no
    scheduler. The kubelet ignores extended resources that its node does not have: it starts the pod without them.

    Source: k8s.io/kubernetes pkg/kubelet/lifecycle/predicate.go removeMissingExtendedResources.
    """
    if request.name in resources_in_claim(lookup(pod, ("status",))):
        return request
    node = lookup(pod, ("spec", "nodeName"))
    by_plugin = request.kind is RequestKind.DEVICE_PLUGIN
    if not node:
        scheduler = lookup(pod, ("spec", "schedulerName")) or "default-scheduler"
        neighbour = neighbour_of_scheduler(scheduler)
        makes_claims = neighbour is None or neighbour.makes_claims
        if by_plugin or (scheduler in settings.conversion.schedulers and makes_claims):
            return request
        why = f"the scheduler {shown(scheduler)} is not in conversion.schedulers, so no claim for it is expected"
        if neighbour is not None and not makes_claims:
            why = f"{neighbour.name} makes no claims for extended resources of DeviceClasses"
        return replace(request, access=GPUAccess.NONE, loss=Loss(request.name, why, "spec.schedulerName"))
    if not by_plugin:
        why = "spec.nodeName is set, so no scheduler makes a claim for it"
        return replace(request, access=GPUAccess.NONE, loss=Loss(request.name, why, "spec.nodeName"))
    offered = lookup(view.get("Node", node), ("status", "allocatable")) if isinstance(node, str) else None
    if not isinstance(offered, dict):
        why = f"no scheduler chose the node {shown(node)}, and it is not known to have it"
        return replace(request, access=GPUAccess.POSSIBLE, loss=Loss(request.name, why, "spec.nodeName"))
    if request.name in offered:
        return request if request.access is GPUAccess.CERTAIN else replace(request, access=GPUAccess.CERTAIN)
    why = f"the node {shown(node)} does not have it, and the kubelet starts the pod without it"
    return replace(request, access=GPUAccess.NONE, loss=Loss(request.name, why, "spec.nodeName"))


def _of_resource(name: str, classes: KnownClasses) -> tuple[RequestKind, GPUAccess, _Unseen]:
    """Kind and access of an extended resource, and the classes on which an unknown access depends.

    The device plugin of NVIDIA gives a GPU for its own names. If a class of another driver stands for such a name,
    nodes without the device plugin give that driver's device, and which node the pod runs on is not known here.
    """
    standing = classes.standing_for(name)
    by_class = [GPUAccess.by(classes.types(each)) for each in standing]
    if parse_resource(name) is not None:
        return RequestKind.DEVICE_PLUGIN, GPUAccess.of_one((GPUAccess.CERTAIN, *by_class)), ()
    implicit = name.startswith(IMPLICIT_PREFIX)
    kind = RequestKind.DEVICE_CLASS if implicit else RequestKind.EXTENDED_RESOURCE
    if not standing and not classes.are_listed:
        return kind, GPUAccess.UNKNOWN, _UNLISTED
    access = GPUAccess.of_one(by_class)
    if access is not GPUAccess.UNKNOWN:
        return kind, access, ()
    return kind, access, tuple(("DeviceClass", each) for each in standing if classes.types(each) is None)


class _Claims:
    """Reads the claims of one pod: a template that several claims are made from is judged once."""

    def __init__(self, view: ClusterView) -> None:
        self._view = view
        self._judged: dict[tuple[str | None, str], tuple[GPUAccess, _Unseen, Mapping[str, GPUAccess]]] = {}
        self._text = Work(_MOST_TEXT)

    def read(self, claim: PodClaim) -> GPURequest:
        """A claim as a request, with any access."""
        if claim.requests is None:
            unseen: _Unseen = () if claim.kind is None else ((claim.kind, claim.object_name),)
            return GPURequest(RequestKind.CLAIM, claim.name, claim.path, None, GPUAccess.UNKNOWN, unseen)
        key = (claim.kind, claim.object_name)
        if key not in self._judged:
            self._judged[key] = self._judge(claim.requests)
        return GPURequest(RequestKind.CLAIM, claim.name, claim.path, None, *self._judged[key])

    def _judge(self, requests: tuple[DeviceRequest, ...]) -> tuple[GPUAccess, _Unseen, Mapping[str, GPUAccess]]:
        by_request: dict[str, GPUAccess] = {}
        unseen: dict[tuple[str, str], None] = {}
        for request in requests:
            access = [self._of_class(subrequest) for subrequest in request.subrequests]
            for subrequest, each in zip(request.subrequests, access, strict=True):
                if each is GPUAccess.UNKNOWN:
                    unseen["DeviceClass", subrequest.device_class] = None
            given = GPUAccess.of_one(access)
            by_request[request.name] = GPUAccess.of_all((given, by_request.get(request.name, GPUAccess.NONE)))
        return GPUAccess.of_all(by_request.values()), tuple(unseen), by_request

    def _of_class(self, subrequest: Subrequest) -> GPUAccess:
        texts = subrequest.expressions
        is_within = self._text.spend(sum(map(len, texts)))
        return GPUAccess.by(self._classes.types(subrequest.device_class, texts if is_within else ()))

    @cached_property
    def _classes(self) -> KnownClasses:
        return known_classes(self._view)


def _resources(pod: Object) -> Iterator[tuple[str, int, dict[Any, Any]]]:
    """List, index and `resources` of each container that can request any."""
    for listed in _WITH_RESOURCES:
        containers = lookup(pod, ("spec", listed))
        for index, container in enumerate(containers if isinstance(containers, list) else ()):
            resources = lookup(container, ("resources",))
            yield listed, index, resources if isinstance(resources, dict) else {}


def _references(resources: dict[Any, Any]) -> Iterator[tuple[str, str]]:
    """The claims that a container refers to, each with the request that it is limited to, or empty."""
    references = resources.get("claims")
    for reference in references if isinstance(references, list) else ():
        if not isinstance(reference, dict):
            continue
        name, request = reference.get("name"), reference.get("request")
        if isinstance(name, str):
            yield name, request if isinstance(request, str) else ""


def _is_zero(amount: Any) -> bool:
    """True for an amount of zero; text that is no amount counts, and the API server refuses it."""
    return quantity_or_none(amount) == 0
