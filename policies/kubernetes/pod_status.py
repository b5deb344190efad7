"""The status of a pod on its node: the health of its devices, and failed starts.

Source: k8s.io/kubernetes pkg/kubelet/kubelet.go rejectPod, pkg/kubelet/kuberuntime/kuberuntime_manager.go SyncPod,
pkg/kubelet/kuberuntime/kuberuntime_container.go startContainer and pkg/kubelet/cm/container_manager_linux.go
UpdateAllocatedResourcesStatus, 1.36.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.kubernetes.objects import DEFAULT_NAMESPACE, lookup, mappings_at, name_of, namespace_of, uid_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.kubernetes.objects import Object


class DeviceHealth(NamedTuple):
    """A device of a container that the kubelet reports as unhealthy."""

    container: str
    resource: str
    """The resource of a device plugin, or `claim:NAME` or `claim:NAME/REQUEST` for the pod's name of a claim."""
    device: str
    """The ID that the device plugin gives; of a claim, the CDI name or `DRIVER/POOL/DEVICE`."""
    message: str
    """The message of the DRA driver; empty without one."""


class StartFailure(NamedTuple):
    """A failure to start a pod or a container, as the kubelet reports it."""

    reason: str
    """`FailedPrepareDynamicResources`, `CreateContainerError`, `UnexpectedAdmissionError`."""
    message: str
    container: str = ""
    """The container; empty if it is about the whole pod."""
    events: int = 0
    """The number of events; 0 if the status of the pod says it."""


_BEFORE_SANDBOX = frozenset({"FailedPrepareDynamicResources", "FailedCreatePodSandBox", "FailedMount"})
"""Reasons of events that no longer count once the pod has its sandbox."""
SANDBOX = "PodReadyToStartContainers"
"""The condition of a pod whose sandbox and network exist on its node."""
_ADMISSION_REASONS = frozenset({"UnexpectedAdmissionError", "TopologyAffinityError"})
"""Reasons with which the kubelet rejects a pod, beside those that begin with `OutOf`."""
_NO_RESOURCE = "OutOf"
_OF_CONTAINERS = "Failed"
_REJECTED = "Pod was rejected: "
_NORMAL_WAITS = frozenset({"", "ContainerCreating", "PodInitializing"})
_START_ERRORS = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of terminated containers that the container runtime could not start."""
CONTAINER_STATUSES = ("initContainerStatuses", "containerStatuses")
"""The fields of the status of a pod about containers that failed starts are read from."""
_CONTAINER_OF_EVENT = re.compile(r"spec\.(?:initC|c)ontainers\{([^{}]*)\}")
_UNHEALTHY = "Unhealthy"


def is_read_event(event: Object) -> bool:
    """True for the kubelet's warnings about pods that `start_failures` reads."""
    if lookup(event, ("involvedObject", "kind")) != "Pod" or event.get("type") != "Warning":
        return False
    reason = str(event.get("reason"))
    return reason in _BEFORE_SANDBOX or reason == _OF_CONTAINERS or is_rejection(reason)


def is_rejection(reason: str) -> bool:
    """True for a reason with which the kubelet rejects a pod; it is not scheduled again."""
    return reason in _ADMISSION_REASONS or reason.startswith(_NO_RESOURCE)


def is_not_running(pod: Object) -> bool:
    """True if a pod is bound and not all of its containers run, or its kubelet rejected it."""
    if pod.get("kind") != "Pod" or not lookup(pod, ("spec", "nodeName")):
        return False
    is_pending = lookup(pod, ("status", "phase")) in (None, "", "Pending")
    return is_pending or is_rejected(pod) or bool(waiting_containers(pod))


def is_rejected(pod: Object) -> bool:
    """True if the kubelet rejected a pod, so that it never ran and never will."""
    return lookup(pod, ("status", "phase")) == "Failed" and is_rejection(str(lookup(pod, ("status", "reason")) or ""))


def unhealthy_devices(pod: Object) -> tuple[DeviceHealth, ...]:
    """The devices of a pod that the kubelet reports as unhealthy, each once.

    The kubelet reports unknown health for all devices of a DRA driver without health checks, which says nothing.
    """
    found = {
        (resource["name"], each["resourceID"]): DeviceHealth(
            str(container.get("name") or ""), resource["name"], each["resourceID"], str(each.get("message") or "")
        )
        for container in mappings_at(pod, ("status", "containerStatuses"))
        for resource in mappings_at(container, ("allocatedResourcesStatus",))
        for each in mappings_at(resource, ("resources",))
        if each.get("health") == _UNHEALTHY
        and isinstance(each.get("resourceID"), str)
        and isinstance(resource.get("name"), str)
    }
    return tuple(found.values())


def start_failures(pod: Object, events: Iterable[Object]) -> tuple[StartFailure, ...]:
    """The reasons why a bound pod, or some of its containers, do not run; each text once.

    The latest events come first.

    Args:
        pod: The pod.
        events: The core/v1 events of its namespace; those of other objects are skipped.
    """
    if lookup(pod, ("status", "phase")) == "Succeeded":
        return ()
    found: dict[str, StartFailure] = {}
    for failure in (*_failures_in_status(pod), *_failures_in_events(pod, events)):
        text = failure.message.removeprefix("Error: ")
        found.setdefault(text or failure.reason, failure._replace(message=text))
    return tuple(found.values())


def waiting_containers(pod: Object) -> tuple[str, ...]:
    """The names of the containers that wait, whatever for."""
    return tuple(
        str(each.get("name") or "")
        for field in CONTAINER_STATUSES
        for each in mappings_at(pod, ("status", field))
        if isinstance(lookup(each, ("state", "waiting")), dict)
    )


def has_sandbox(pod: Object) -> bool:
    """True if the node has made the sandbox and the network of a pod, after its claims were prepared."""
    conditions = mappings_at(pod, ("status", "conditions"))
    return any(each.get("type") == SANDBOX and each.get("status") == "True" for each in conditions)


def _failures_in_status(pod: Object) -> Iterator[StartFailure]:
    if is_rejected(pod):
        message = str(lookup(pod, ("status", "message")) or "").removeprefix(_REJECTED)
        yield StartFailure(str(lookup(pod, ("status", "reason"))), message)
        return
    for field in CONTAINER_STATUSES:
        for status in mappings_at(pod, ("status", field)):
            name = str(status.get("name") or "")
            waiting = lookup(status, ("state", "waiting"))
            ended = _start_error(status)
            if ended is not None:
                yield StartFailure(str(ended["reason"]), str(ended.get("message") or ""), name)
            elif isinstance(waiting, dict) and (reason := str(waiting.get("reason") or "")) not in _NORMAL_WAITS:
                yield StartFailure(reason, str(waiting.get("message") or ""), name)


def _start_error(status: Object) -> Object | None:
    """The end of a container that never ran; its last state while it waits for the next try."""
    if isinstance(lookup(status, ("state", "running")), dict):
        return None
    for state in ("state", "lastState"):
        ended = lookup(status, (state, "terminated"))
        if isinstance(ended, dict) and ended.get("reason") in _START_ERRORS:
            return ended
    return None


def _failures_in_events(pod: Object, events: Iterable[Object]) -> Iterator[StartFailure]:
    waiting, is_set_up = waiting_containers(pod), has_sandbox(pod)
    if lookup(pod, ("status", "phase")) == "Failed" and not is_rejected(pod):
        return
    own = [each for each in events if is_read_event(each) and _is_about(each, pod)]
    for event in sorted(own, key=_last_time, reverse=True):
        reason = str(event.get("reason"))
        found = _CONTAINER_OF_EVENT.fullmatch(str(lookup(event, ("involvedObject", "fieldPath")) or ""))
        container = found[1] if found else ""
        if reason in _BEFORE_SANDBOX and is_set_up:
            continue
        if reason == _OF_CONTAINERS and container not in waiting:
            continue
        counts = (event.get("count"), lookup(event, ("series", "count")))
        count = max((each for each in counts if isinstance(each, int)), default=1)
        yield StartFailure(reason, str(event.get("message") or ""), container, count)


def _is_about(event: Object, pod: Object) -> bool:
    about = lookup(event, ("involvedObject",))
    namespace = namespace_of(pod) or DEFAULT_NAMESPACE
    is_named = lookup(about, ("name",)) == name_of(pod) and lookup(about, ("namespace",)) == namespace
    return is_named and lookup(about, ("uid",)) in (None, "", uid_of(pod))


def _last_time(event: Object) -> str:
    """The time of the last occurrence; times of the API server are ordered as texts."""
    times = (event.get("lastTimestamp"), event.get("eventTime"), lookup(event, ("series", "lastObservedTime")))
    return max((each for each in times if isinstance(each, str)), default="")


_KEPT_WAITS = ("reason", "message")
_KEPT_HEALTH = ("resourceID", "health", "message")


def reduced_container_statuses(statuses: Any) -> list[Object]:
    """The parts of container statuses about failed starts and unhealthy devices."""
    reduced = []
    for status in statuses if isinstance(statuses, list) else ():
        if not isinstance(status, dict):
            continue
        kept: Object = {}
        waiting, ended = lookup(status, ("state", "waiting")), _start_error(status)
        if isinstance(waiting, dict):
            kept["state"] = {"waiting": {field: waiting[field] for field in _KEPT_WAITS if field in waiting}}
        if ended is not None:
            kept["lastState"] = {"terminated": {field: ended[field] for field in _KEPT_WAITS if field in ended}}
        resources = [
            {
                "name": each.get("name"),
                "resources": [
                    {field: health[field] for field in _KEPT_HEALTH if field in health} for health in unhealthy
                ],
            }
            for each in mappings_at(status, ("allocatedResourcesStatus",))
            if (unhealthy := [one for one in mappings_at(each, ("resources",)) if one.get("health") == _UNHEALTHY])
        ]
        if resources:
            kept["allocatedResourcesStatus"] = resources
        if kept:
            reduced.append({"name": status.get("name"), **kept})
    return reduced
