"""Pods on their nodes: why one does not start, and which of its devices are unhealthy.

The texts are those of kubelets and drivers; `policies.nvidia.start_failures` has their causes.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from policies.devices.device_taint_rules import PREVENTING
from policies.devices.published_devices import published_devices
from policies.devices.resource_claims import Claim, Holder
from policies.kubernetes.names import format_list, is_dns_subdomain, printable, shorten
from policies.kubernetes.nodes import Taint
from policies.kubernetes.objects import DEFAULT_NAMESPACE, lookup, mappings_at, name_of, namespace_of
from policies.kubernetes.pod_status import start_failures, unhealthy_devices
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import DRIVER, HEALTH_TAINTS
from policies.nvidia.start_failures import known_failure

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.devices.resource_claims import DeviceKey
    from policies.kubernetes.objects import Object
    from policies.kubernetes.pod_status import DeviceHealth, StartFailure
    from policies.kubernetes.resourceslices import Device
    from policies.kubernetes.view import ClusterView


_LONGEST_TEXT = 300
"""Characters of a text of a kubelet or driver."""
_CLAIM = "claim:"
"""The prefix of `DeviceHealth.resource` for a claim."""


@dataclass(frozen=True, slots=True)
class StartReason:
    """The reason why a bound pod, or one of its containers, does not run."""

    cause: str
    """The cause, a clause; the text of the kubelet if the cause is unknown."""
    text: str
    """The text of the kubelet or the driver, without what is around the cause."""
    source: str
    """The place of the text: `event FailedPrepareDynamicResources, 7 times`, `container main, CreateContainerError`."""
    remedy: str = ""
    """An imperative for the author of the pod; empty if there is none."""
    administrator: str = ""
    """The remedy that follows "an administrator can"; empty if there is none."""
    is_known: bool = True
    """False if the table of failures does not have the text."""

    @property
    def sentence(self) -> str:
        """The cause and the text, without a full stop."""
        return f'{self.cause}: "{self.text}" ({self.source})' if self.is_known else f"{self.cause} ({self.source})"

    @property
    def remedies(self) -> str:
        """The remedies for both, an imperative; empty if there are none."""
        parts = (self.remedy, f"an administrator can {self.administrator}" if self.administrator else "")
        return "; ".join(each for each in parts if each)


@dataclass(frozen=True, slots=True)
class StuckPod:
    """A pod that is bound to a node, holds its devices, and does not run."""

    namespace: str
    pod: str
    node: str
    reasons: tuple[StartReason, ...]
    """The latest first; empty if nothing says why."""
    containers: tuple[str, ...]
    """The containers that wait."""

    @property
    def reason(self) -> str:
        """The first reason, a clause."""
        if self.reasons:
            return self.reasons[0].cause
        waiting = f"waits for container {format_list(self.containers)}" if self.containers else "waits"
        return f"{waiting}, and nothing says why"


def start_reasons(pod: Object, view: ClusterView) -> tuple[StartReason, ...]:
    """The reasons why a bound pod does not run, the latest first; empty if none is reported.

    Events count as far as the view has them: no replica reads them.
    """
    namespace = namespace_of(pod) or DEFAULT_NAMESPACE
    events = view.known_objects("Event", namespace)
    reasons: dict[str, StartReason] = {}
    for failure in start_failures(pod, events):
        reason = _reason(failure, pod, namespace, view)
        # Several texts have one cause, such as those of one failure with another number.
        reasons.setdefault(reason.cause, reason)
    return tuple(reasons.values())


def _reason(failure: StartFailure, pod: Object, namespace: str, view: ClusterView) -> StartReason:
    source = f"event {failure.reason}" if failure.events else failure.reason
    if failure.container:
        source = f"container {failure.container}, {source}"
    if failure.events > 1:
        source = f"{source}, {failure.events} times"
    found = known_failure(failure.message)
    if found is None:
        text = shorten(failure.message, _LONGEST_TEXT)
        return StartReason(text or failure.reason, text, printable(source), is_known=False)
    row, groups = found.row, found.groups
    words = defaultdict(str, groups)
    # Users may create events, with a command in place of the name.
    words["claim"] = claim if is_dns_subdomain(claim := groups.get("claim", "")) else "CLAIM"
    words["node"] = printable(str(lookup(pod, ("spec", "nodeName")) or "its node"))
    words["pod"], words["namespace"] = printable(name_of(pod)), namespace
    if "claim_uid" in groups:
        words["holder"] = _holder(groups["claim_uid"], view)
    words["reserved"] = _consumers(groups.get("claim", ""), namespace, view)
    cause, remedy, administrator = (text.format_map(words) for text in (row.cause, row.remedy, row.administrator))
    return StartReason(cause, shorten(found.text, _LONGEST_TEXT), printable(source), remedy, administrator)


def _holder(uid: str, view: ClusterView) -> str:
    """The claim with a uid, and the pods that use it."""
    claims = view.list("ResourceClaim")
    if claims is UNKNOWN:
        return f"another claim, with uid {uid}"
    for document in claims:
        if lookup(document, ("metadata", "uid")) == uid:
            return f"claim {Claim(document).label}{_pods_of(document, view)}"
    return "a claim that was deleted, such as with a pod that was deleted by force"


def _consumers(name: str, namespace: str, view: ClusterView) -> str:
    found = view.get("ResourceClaim", name, namespace) if name else None
    return _pods_of(found, view) if isinstance(found, dict) else ""


def _pods_of(document: Object, view: ClusterView) -> str:
    """The pods that a claim is reserved for, as a clause; those that do not exist any more are marked."""
    holder = Holder.of_claim(Claim(document))
    names = [
        f"{name}, which was deleted" if view.get("Pod", name, holder.namespace) is None else name
        for name in holder.pods
    ]
    if not names:
        return ""
    return f" (which is reserved for {'pods' if len(names) > 1 else 'pod'} {format_list(names, 3)})"


_GPU_REMEDY = (
    "delete the pod, so that it gets another GPU; an administrator can look for the XID in the kernel's log of the node, and reset "
    "the GPU"
)


class UnhealthyDevice(NamedTuple):
    """A device of a pod or claim that is reported as unhealthy, or not ready."""

    device: str
    """Its name, or the ID that the kubelet reports."""
    problem: str
    """A clause: `the GPU reported XID 79 (taint gpu.nvidia.com/xid=79:NoSchedule)`."""
    remedy: str
    """An imperative."""


def health_problem(device: Device) -> str:
    """The problem of a device that NVIDIA's driver taints as unhealthy; empty if it is healthy."""
    for taint in mappings_at(device.body, ("taints",)):
        said = HEALTH_TAINTS.get(str(taint.get("key")))
        if said is not None and taint.get("effect") in PREVENTING:
            value = printable(str(taint.get("value") or ""))
            return f"{said.format(value=value)} (taint {printable(str(Taint.read(taint)))})"
    return ""


def device_problems(view: ClusterView) -> Mapping[DeviceKey, str]:
    """The problems that kubelets and drivers report of devices; `view.derive(device_problems)`."""
    claims, pods = view.derive_each("ResourceClaim", _not_ready), view.derive_each("Pod", _unhealthy_claims)
    found = dict(chain.from_iterable(() if claims is UNKNOWN else claims))
    for namespace, claim, each in chain.from_iterable(() if pods is UNKNOWN else pods):
        document = view.get("ResourceClaim", claim, namespace)
        if isinstance(document, dict) and (device := _device_of(each, document)):
            found[device] = kubelet_problem(each)
    return found


def kubelet_problem(health: DeviceHealth) -> str:
    """The clause for a device that the kubelet reports as unhealthy."""
    said = f": {shorten(health.message)}" if health.message else ""
    return f"the kubelet reports it as unhealthy{said}"


def unhealthy_devices_of(pod: Object | None, claims: Iterable[Claim], view: ClusterView) -> Iterator[UnhealthyDevice]:
    """The devices of a bound pod, or of claims, that are unhealthy or not ready.

    Args:
        pod: The pod; None if claims alone are asked about.
        claims: The claims that have devices.
        view: The cluster.
    """
    held = [device for claim in claims for device in claim.device_keys]
    published, problems = (view.derive(published_devices), view.derive(device_problems)) if held else (UNKNOWN, {})
    for key in held:
        device = None if published is UNKNOWN else published.find(*key)
        if problem := problems.get(key) or (health_problem(device) if device is not None else ""):
            driver = printable(key[0])
            remedy = (
                _GPU_REMEDY if driver == DRIVER else f"an administrator can read the log of driver {driver} on the node"
            )
            yield UnhealthyDevice(printable(key[2]), problem, remedy)
    for health in unhealthy_devices(pod or {}):
        if not health.resource.startswith(_CLAIM):
            name = f"{health.resource} {shorten(health.device)} of container {health.container}"
            yield UnhealthyDevice(printable(name), kubelet_problem(health), _GPU_REMEDY)


def _not_ready(document: Object) -> tuple[tuple[DeviceKey, str], ...]:
    return tuple(
        ((each.driver, each.pool, each.device), f"its driver reports that it is not ready: {shorten(each.problem)}")
        for each in Claim(document).device_statuses
        if each.problem
    )


def _unhealthy_claims(pod: Object) -> tuple[tuple[str, str, DeviceHealth], ...]:
    """The namespace and the name of the claim of each unhealthy device of a pod, and the device."""
    found = [each for each in unhealthy_devices(pod) if each.resource.startswith(_CLAIM)]
    if not found:
        return ()
    names = {
        str(each.get("name")): str(each.get("resourceClaimName"))
        for path in (("spec", "resourceClaims"), ("status", "resourceClaimStatuses"))
        for each in mappings_at(pod, path)
        if each.get("resourceClaimName")
    }
    entries = ((names.get(each.resource.removeprefix(_CLAIM).partition("/")[0]), each) for each in found)
    return tuple((namespace_of(pod) or DEFAULT_NAMESPACE, name, each) for name, each in entries if name)


def _device_of(health: DeviceHealth, claim: Object) -> DeviceKey | None:
    """The device that the kubelet names: by driver, pool and name, or by the end of its CDI name.

    Source: k8s.io/kubernetes pkg/kubelet/cm/dra/manager.go buildResourceHealth; dra-driver-nvidia-gpu
    cmd/gpu-kubelet-plugin/cdi.go GetClaimDeviceName.
    """
    for driver, pool, name in Claim(claim).device_keys:
        if health.device == f"{driver}/{pool}/{name}" or health.device.endswith((f"={name}", f"-{name}")):
            return driver, pool, name
    return None
