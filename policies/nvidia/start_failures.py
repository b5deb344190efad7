"""The table of failures that keep a bound pod from starting.

Every row has the text that a kubelet, a driver of NVIDIA or a container runtime writes, the cause, and what to do.
docs/pod-starts.md is printed from it. `driver_failures` has the rows of NVIDIA's DRA driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.kubernetes.names import printable, shorten
from policies.nvidia.driver_failures import (
    DELETE,
    DOMAIN_PLUGIN,
    DRIVER_FAILURES,
    FREED,
    LOGS,
    PLUGINS_OF_NODE,
    KnownFailure,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_KUBELET = "kubernetes pkg/kubelet/"
_DRA = f"{_KUBELET}cm/dra/manager.go"
_DEVICES = f"{_KUBELET}cm/devicemanager/manager.go"
_CLAIMS = "dynamic-resource-allocation resourceclaim/resourceclaim.go"
_TOOLKIT = "nvidia-container-toolkit "

_LONGEST_NAME = 120
"""Characters of a group of a text."""


@dataclass(frozen=True, slots=True)
class MatchedFailure:
    """A row that a message matches."""

    row: KnownFailure
    text: str
    """The part of the message that is the cause."""
    groups: Mapping[str, str]
    """The named groups of the text, and the claim that was prepared."""


KNOWN_FAILURES = (
    # The kubelet, before it calls a driver.
    KnownFailure(
        r"DRA driver (?P<driver>\S+) is not registered",
        "the kubelet of node {node} has no plugin of driver {driver}: its pod does not run there, or starts again",
        f"{_KUBELET}cm/dra/plugin/dra_plugin_manager.go GetPlugin",
        administrator=PLUGINS_OF_NODE,
    ),
    KnownFailure(
        r"old ResourceClaim with same name (?P<claim>\S+) and different UID (?P<claim_uid>\S+) still exists",
        "node {node} still has the devices prepared for an earlier claim {claim}, whose pod was deleted by force; "
        + FREED,
        f"{_DRA} prepareResources",
        administrator="restore the driver's kubelet plugin on node {node}, without which the claim stays prepared",
    ),
    KnownFailure(
        r"pod (?P<name>\S+) \((?P<uid>\S+)\) is not allowed to use ResourceClaim (?P<claim>\S+) \((?P<claim_id>\S+)\)",
        "claim {claim} is not reserved for this pod{reserved}: no scheduler bound the pod, or the claim was released for it",
        f"{_DRA} prepareResources",
        remedy=f"remove spec.nodeName if the manifest has it; {DELETE}",
    ),
    KnownFailure(
        r"fetch ResourceClaim (?P<claim>\S+): (?P<error>.*)not found",
        "claim {claim} was deleted after the pod got its node, and a bound pod gets no other",
        f"{_DRA} prepareResources",
        remedy=DELETE,
    ),
    KnownFailure(
        r"fetch ResourceClaim (?P<claim>\S+): (?P<error>.+)",
        "the kubelet of node {node} cannot read claim {claim} from the API server",
        f"{_DRA} prepareResources",
        administrator="look at the connection and the certificate of the kubelet on node {node}",
    ),
    KnownFailure(
        r"ResourceClaim (?P<claim>[^\s:]+): not allocated",
        "claim {claim} has no devices: the pod got its node without a scheduler that allocates claims",
        f"{_KUBELET}cm/dra/claiminfo.go newClaimInfoFromClaim",
        remedy=f"remove spec.nodeName if the manifest has it; {DELETE}",
    ),
    KnownFailure(
        r"ResourceClaim not created yet",
        "the claim of the pod's template does not exist: the pod got its node without a scheduler that waits for it",
        f"{_CLAIMS} Name",
        remedy="remove spec.nodeName if the manifest has it; kubectl describe pod {pod} -n {namespace} shows why it is not created",
    ),
    KnownFailure(
        r"ResourceClaim (?P<home>\S+)/(?P<claim>\S+) was not created for Pod (?P<name>\S+) \((?:Pod is not owner|neither Pod nor PodGroup (?P<group>\S+) is the owner)\)",
        "claim {claim} has the name of the pod's claim and belongs to another pod, such as an earlier one of this name",
        f"{_CLAIMS} IsForPod",
        remedy=DELETE,
    ),
    KnownFailure(
        r"checkpoint ResourceClaim (?:cache|state): (?P<error>.+)",
        "the kubelet of node {node} cannot write its record of prepared claims",
        f"{_DRA} prepareResources",
        administrator="look at the disk of node {node} that has /var/lib/kubelet",
    ),
    *DRIVER_FAILURES,
    # The kubelet, about the answer of a driver.
    KnownFailure(
        r"NodePrepareResources skipped (?P<count>\d+) ResourceClaims",
        "a driver gave no answer about {count} claims in 45 seconds; NVIDIA's driver does so while the ComputeDomain of the claim is "
        "not ready on node {node}",
        f"{_DRA} prepareResources; {DOMAIN_PLUGIN}driver.go PrepareResourceClaims",
        remedy="look at the ComputeDomain: kubectl get computedomains -n {namespace} -o yaml",
        administrator="look at its IMEX daemons, the pods of its DaemonSet in the namespace of the DRA driver",
    ),
    KnownFailure(
        r"NodePrepareResources: rpc error: code = DeadlineExceeded",
        "a driver did not answer in 45 seconds; NVIDIA's driver waits so long for IMEX daemons, MPS and MIG devices",
        f"{_KUBELET}cm/dra/plugin/dra_plugin.go NodePrepareResources",
        administrator=LOGS,
    ),
    KnownFailure(
        r"NodePrepareResources: rpc error: code = Unavailable",
        "the kubelet cannot reach the driver's plugin on node {node}: it starts again, or hangs",
        f"{_KUBELET}cm/dra/plugin/dra_plugin.go NodePrepareResources",
        administrator=PLUGINS_OF_NODE,
    ),
    # Device plugins.
    KnownFailure(
        r"maximum request size for shared resources is 1; found (?P<count>\d+)",
        "a container requests {count} shares, and the device plugin gives one (failRequestsGreaterThanOne)",
        "k8s-device-plugin internal/rm/rm.go ValidateRequest",
        remedy="request 1 in each container",
    ),
    KnownFailure(
        r"invalid allocation request for \"?(?P<resource>[^\s\"]+)\"?: invalid request: unknown device: (?P<device>\S+)",
        "the kubelet of node {node} chose device {device}, which the device plugin does not have any more",
        "k8s-device-plugin internal/plugin/server.go Allocate; internal/rm/rm.go ValidateRequest",
        remedy=DELETE,
        administrator="restart the device plugin on node {node}, so that it registers the devices that exist",
    ),
    KnownFailure(
        r"failed to get allocate response for CDI: (?P<error>.+)",
        "the device plugin of node {node} cannot name the CDI devices of the GPUs",
        "k8s-device-plugin internal/plugin/server.go getAllocateResponse",
        administrator="read the log of the device plugin on node {node}",
    ),
    KnownFailure(
        r"requested number of devices unavailable for (?P<resource>\S+)\. Requested: (?P<count>\d+), Available: (?P<left>\d+)",
        "the kubelet of node {node} had {left} free healthy {resource} and needed {count}: a device became unhealthy, or belongs to a "
        "pod that is still ending, after the scheduler chose the node",
        f"{_DEVICES} devicesToAllocate",
        remedy=DELETE,
        administrator="compare capacity and allocatable of {resource} on node {node}; a difference is unhealthy devices",
    ),
    KnownFailure(
        r"cannot allocate unregistered device (?P<resource>\S+?)(?:,|$)",
        "the device plugin of {resource} had not registered with the kubelet of node {node}, such as after a reboot",
        f"{_DEVICES} devicesToAllocate",
        remedy=DELETE,
        administrator=PLUGINS_OF_NODE,
    ),
    KnownFailure(
        r"no healthy devices present; cannot allocate unhealthy devices (?P<resource>\S+?)(?:,|$)",
        "every {resource} of node {node} was unhealthy, or its device plugin had just stopped",
        f"{_DEVICES} devicesToAllocate",
        remedy=DELETE,
        administrator="read the log of the device plugin on node {node}, which names the XID of an unhealthy GPU",
    ),
    KnownFailure(
        r"previously allocated devices are no longer healthy; cannot allocate unhealthy devices (?P<resource>\S+?)(?:,|$)",
        "a {resource} that the pod had before node {node} started again is unhealthy",
        f"{_DEVICES} devicesToAllocate",
        remedy=DELETE,
        administrator="read the log of the device plugin on node {node}, which names the XID of an unhealthy GPU",
    ),
    KnownFailure(
        r"unknown Device Plugin (?P<resource>\S+?)(?:,|$)",
        "the device plugin of {resource} stopped on node {node} while the kubelet admitted the pod",
        f"{_DEVICES} allocateContainerResources",
        remedy=DELETE,
        administrator=PLUGINS_OF_NODE,
    ),
    KnownFailure(
        r"device plugin (?:GetPreferredAllocation|PreStartContainer) rpc failed with err: (?P<error>.+)",
        "the device plugin of node {node} failed while the kubelet asked it which devices to give",
        f"{_DEVICES} callGetPreferredAllocationIfAvailable, callPreStartContainerIfNeeded",
        remedy=DELETE,
        administrator="read the log of the device plugin on node {node}",
    ),
    KnownFailure(
        r"Node didn't have enough resource: (?P<resource>[^\s,]+), requested: (?P<count>\d+), used: (?P<used>\d+), "
        r"capacity: (?P<capacity>\d+)",
        "node {node} had {capacity} {resource}, of which other pods use {used}, when its kubelet admitted the pod: the scheduler was "
        "passed over (spec.nodeName), or a device became unhealthy meanwhile",
        f"{_KUBELET}lifecycle/predicate.go Admit, InsufficientResourceError.Error",
        remedy=f"remove spec.nodeName if the manifest has it; {DELETE}",
    ),
    KnownFailure(
        r"(?:Pod Scope )?Resources cannot be allocated with Topology locality",
        "the Topology Manager of node {node} admits only pods whose GPUs and CPUs are on one NUMA node, and the free ones are not",
        f"{_KUBELET}cm/topologymanager/topology_manager.go TopologyAffinityError.Error",
        remedy=f"request fewer GPUs or CPUs in a container, or {DELETE}",
        administrator="set topologyManagerPolicy of node {node} to best-effort",
    ),
    # Container runtimes, CDI and NVIDIA's Container Toolkit.
    KnownFailure(
        r"unresolvable CDI devices (?P<device>[^\s\"]+)",
        "the container runtime of node {node} finds no CDI file that has {device}: the driver's or the toolkit's file is missing, or "
        "the runtime reads another folder",
        f"container-device-interface pkg/cdi/cache.go InjectDevices; {_TOOLKIT}internal/modifier/cdi/registry.go Modify",
        administrator=(
            "run nvidia-ctk cdi list on node {node}; nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml writes the file of "
            "nvidia.com/gpu, and the plugin of the DRA driver those of claims"
        ),
    ),
    KnownFailure(
        r"no runtime for \\?\"(?P<handler>[^\"\\]+)\\?\" is configured|failed to find runtime handler (?P<crio_handler>\S+) from "
        r"runtime list",
        "the container runtime of node {node} does not know the handler of the pod's runtime class",
        "containerd internal/cri/server/helpers.go getSandboxRuntime; cri-o internal/oci/oci.go ValidateRuntimeHandler",
        remedy="remove runtimeClassName, if the container runtime injects GPUs without it",
        administrator="wait for or repair the container toolkit on node {node}, which configures the handler and restarts the runtime",
    ),
    KnownFailure(
        r"requirement error: (?P<error>[^\\\n]*)|unsatisfied condition: (?P<condition_error>[^\\\n]*)",
        "the image requires a newer driver or another GPU than node {node} has",
        f"libnvidia-container src/cli/configure.c configure_command; {_TOOLKIT}internal/requirements/constraints/binary.go Assert",
        remedy="use an image for an older CUDA version, or request the driver that it needs: annotation gpu-admission.io/min-cuda",
        administrator="upgrade the driver of node {node}",
    ),
    KnownFailure(
        r"nvidia-container-cli(?:\.real)?: device error: (?P<error>[^\\\n]*)",
        "a GPU that the container was given does not exist on node {node} any more",
        "libnvidia-container src/cli/configure.c configure_command",
        remedy=f"remove NVIDIA_VISIBLE_DEVICES from the container if it is set there; {DELETE}",
        administrator="run nvidia-smi -L on node {node}, and restart the device plugin",
    ),
    KnownFailure(
        r"nvidia-container-cli(?:\.real)?: initialization error: (?P<error>[^\\\n]*)",
        "the driver of node {node} is not loaded, or its library and its kernel module have different versions",
        "libnvidia-container src/cli/configure.c configure_command",
        administrator="run nvidia-smi on node {node}; after a driver upgrade the node needs its driver pod, or a reboot",
    ),
    KnownFailure(
        r"nvidia-container-cli(?:\.real)?: (?:mount|ldcache|detection|container|permission) error: (?P<error>[^\\\n]*)",
        "the container toolkit cannot put the driver into the container",
        "libnvidia-container src/cli/configure.c configure_command",
        administrator="look at the driver and the toolkit on node {node}",
    ),
    KnownFailure(
        r"invoking the NVIDIA Container Runtime Hook directly",
        "the hook of the container toolkit was called without the NVIDIA runtime, which the toolkit's configuration forbids",
        f"{_TOOLKIT}cmd/nvidia-container-runtime-hook/hook_config.go assertModeIsLegacy",
        administrator="remove the hook from the runtime's configuration on node {node}, or run pods with the runtime class nvidia",
    ),
    KnownFailure(
        r"requesting a CDI device with vendor 'runtime\.nvidia\.com' is not supported when requesting other CDI devices",
        "a container gets GPUs twice: from its device plugin or claim, and from NVIDIA_VISIBLE_DEVICES or its annotations",
        f"{_TOOLKIT}internal/modifier/cdi.go newCDIModifier",
        remedy="remove NVIDIA_VISIBLE_DEVICES and the CDI annotations from the pod",
    ),
    KnownFailure(
        r"no runtime binary found from candidate list: (?P<error>.+)",
        "the NVIDIA runtime of node {node} finds neither runc nor crun",
        f"{_TOOLKIT}internal/oci/runtime_low_level.go findRuntime",
        administrator="set nvidia-container-runtime.runtimes in the toolkit's config.toml on node {node}",
    ),
    KnownFailure(
        r"failed to (?:construct CDI library|generate CDI spec|construct CDI modifier) for mode (?P<error>.+)"
        r"|could not apply required modification to OCI specification: (?P<oci_error>.+)",
        "the NVIDIA runtime of node {node} cannot describe the GPUs to the container",
        f"{_TOOLKIT}internal/modifier/cdi.go newAutomaticCDISpecModifier; {_TOOLKIT}internal/oci/runtime_modifier.go Exec",
        administrator="run nvidia-smi and nvidia-ctk cdi list on node {node}: the driver or a device node is missing",
    ),
)
"""The rows, those that say most first: a message is matched with one row after the other."""


_PREPARED = re.compile(r"NodePrepareResources failed for ResourceClaim (?P<claim>[^\s:]+): ")
"""The text of the kubelet around the error of a driver. Source: kubernetes pkg/kubelet/cm/dra/manager.go prepareResources."""


def known_failure(message: str) -> MatchedFailure | None:
    """The first row that a message matches; None if the table does not have it."""
    if (match := _first_match(message)) is None:
        return None
    row, found = match
    prepared = _PREPARED.search(message)
    texts = {**(prepared.groupdict() if prepared else {}), **{k: v for k, v in found.groupdict().items() if v}}
    groups = {name: shorten(text, _LONGEST_NAME) for name, text in texts.items()}
    return MatchedFailure(row, printable(found[0]), groups)


def _first_match(message: str) -> tuple[KnownFailure, re.Match[str]] | None:
    """The first row that a message matches, and the match."""
    matches = ((row, row.pattern.search(message)) for row in KNOWN_FAILURES)
    return next(((row, found) for row, found in matches if found is not None), None)


def known_text(message: str, rename: Callable[[str], str] = str, other: str = "") -> str:
    """The part of a message that the table has; empty if it has none.

    Args:
        message: The message of an event or a container.
        rename: Replaces the names in the text.
        other: Replaces what is not fixed in the text and no name; empty to keep it.
    """
    if (match := _first_match(message)) is None:
        return ""
    _, found = match
    text, end = "", found.start()
    for name, span in sorted(((name, found.span(name)) for name in found.groupdict()), key=lambda item: item[1]):
        if span[0] >= end:
            part = message[span[0] : span[1]]
            text += message[end : span[0]] + (other if other and name.endswith("error") else rename(part))
            end = span[1]
    return text + message[end : found.end()]
