"""Failures that NVIDIA's DRA driver writes, and the form of all known failures.

`start_failures` has the whole table.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class KnownFailure:
    """A row of the table: a text that keeps a pod from starting, its cause, and what to do."""

    text: str
    """A regular expression for the part of the message that is the cause."""
    cause: str
    """A clause. In braces: the named groups of the text, `node`, `pod`, `namespace`, `claim` for the claim that was prepared,
    `holder` for the claim with the uid in `claim_uid`, and `reserved` for the pods of the claim in `claim`."""
    source: str
    """The file and the function that format the text."""
    remedy: str = ""
    """An imperative for the author of the pod; empty if the author can do nothing."""
    administrator: str = ""
    """The remedy for an administrator, which follows "an administrator can"; empty if there is none."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The text, compiled."""
        return re.compile(self.text)


_DRIVER = "dra-driver-nvidia-gpu cmd/"
_GPU = f"{_DRIVER}gpu-kubelet-plugin/"
DOMAIN_PLUGIN = f"{_DRIVER}compute-domain-kubelet-plugin/"

DELETE = "delete the pod, so that it, or the one that its controller makes, is scheduled anew: kubectl delete pod {pod} -n {namespace}"
_DELETE_CLAIM = (
    "delete the pod and the claim, so that devices that exist are allocated: "
    "kubectl delete pod/{pod} resourceclaim/{claim} -n {namespace}"
)
LOGS = "read the log of the driver's kubelet plugin on node {node}"
PLUGINS_OF_NODE = (
    "look at the pods of the GPU software there: kubectl get pods -A -o wide --field-selector spec.nodeName={node}"
)
FREED = "the kubelet has the driver unprepare it, and tries every minute"

DRIVER_FAILURES = (
    # NVIDIA's driver for GPUs.
    KnownFailure(
        r"requested device (?P<device>\S+) is already allocated to different claim (?P<claim_uid>\S+)",
        "{device} of node {node} is still prepared for {holder}; " + FREED,
        f"{_GPU}device_state.go validateNoOverlappingPreparedDevices; the same of compute-domain-kubelet-plugin",
        administrator="read in the log of the driver's kubelet plugin on node {node} why it does not unprepare the other claim",
    ),
    KnownFailure(
        r"requested device (?P<device>\S+) has conflicting configuration with already prepared claim (?P<claim_uid>\S+)",
        "{device} is shared with {holder}, whose config differs",
        f"{_GPU}device_state.go validateNoOverlappingPreparedDevices",
        remedy="write the same config in both claims, or request a device that is not shared",
    ),
    KnownFailure(
        r"(?:allocatable not found for (?:vfio )?device|requested device is not allocatable:) \"?(?P<device>[^\s\"]+)\"?",
        "{device} was allocated, and the driver of node {node} does not know it any more: the GPU is gone, or MIG or the driver "
        "changed since",
        f"{_GPU}device_state.go prepareDevices, getConfigResultsMap; {DOMAIN_PLUGIN}device_state.go getConfigResultsMap",
        remedy=_DELETE_CLAIM,
    ),
    KnownFailure(
        r"MPS control daemon is not yet ready|waiting for MPS control daemon to come online|control daemon not yet ready",
        "the MPS control daemon of the claim does not run yet on node {node}; the kubelet tries again",
        f"{_GPU}device_state.go applySharingConfig; {_GPU}sharing.go AssertReady",
        administrator="look at the Deployments mps-control-daemon-* in the namespace of the DRA driver",
    ),
    KnownFailure(
        r"MPS is not yet supported when using featureGates\.DynamicMIG=true"
        r"|MPS sharing is not supported when consumable shares is enabled",
        "the claim requests MPS, which the driver of this cluster refuses beside another feature that is on",
        f"{_GPU}device_state.go applySharingConfig",
        remedy="request time-slicing in the config of the claim, or no sharing",
        administrator="turn DynamicMIG or consumable shares of the DRA driver off",
    ),
    KnownFailure(
        r"error (?:starting MPS control daemon|getting MPS configuration): (?P<error>.+)",
        "the driver of node {node} cannot start the MPS control daemon of the claim",
        f"{_GPU}device_state.go applySharingConfig",
        administrator=LOGS,
    ),
    KnownFailure(
        r"error (?:getting|setting) timeslice config for requests (?P<error>.+)|error setting (?:compute mode|time slice): (?P<setting_error>.+)",
        "the driver of node {node} cannot set the compute mode or the time slice of the GPU",
        f"{_GPU}device_state.go applySharingConfig; {_GPU}sharing.go SetTimeSlice",
        administrator="run nvidia-smi on node {node}: the GPU does not accept the setting",
    ),
    KnownFailure(
        r"error creating MIG device: (?P<error>.+)",
        "the driver of node {node} cannot create the MIG device: something else divided the GPU, or MIG is off",
        f"{_GPU}device_state.go prepareDevices",
        remedy=DELETE,
        administrator="compare nvidia-smi mig -lgi on node {node} with the claims; only the DRA driver may divide these GPUs",
    ),
    KnownFailure(
        r"unprepare failed for partially prepared claim (?P<error>.+)",
        "the driver of node {node} cannot undo a first attempt to prepare the claim",
        f"{_GPU}device_state.go Prepare",
        administrator=LOGS,
    ),
    KnownFailure(
        r"gpu device \"(?P<device>[^\"]+)\" has open fds by process\(es\)|timed out waiting for gpu to be free",
        "the GPU must be free to be bound to vfio, and processes on node {node} use it",
        f"{_GPU}vfio-device.go WaitForGPUFree",
        administrator="end the processes on node {node} that have the GPU open, such as DCGM and nvidia-persistenced",
    ),
    KnownFailure(
        r"IOMMU is not enabled in the kernel|failed to load module \"(?P<module>vfio[^\"]*)\""
        r"|failed to find driver directory for vfio module",
        "node {node} cannot pass GPUs through: its kernel has no IOMMU, or lacks the vfio module",
        f"{_GPU}vfio-device.go NewVfioPciManager, Configure, getVfioDriverName",
        administrator="turn the IOMMU of node {node} on, and load vfio-pci",
    ),
    KnownFailure(
        r"(?:refusing partition activation|activating fabric partition \d+|does not match any FM partition)",
        "the GPUs of the claim are no partition that Fabric Manager can activate on node {node}",
        f"{_GPU}device_state.go activateFabricPartition, resolveFabricPartition",
        remedy="request as many GPUs as a partition of the machine has, such as 1, 2, 4 or 8",
        administrator=LOGS,
    ),
    KnownFailure(
        r"contains (?P<count>\d+) VFIO device groups, but at most one is supported per claim",
        "the claim has {count} groups of vfio devices, and the driver takes one for each claim",
        f"{_GPU}device_state.go prepareDevices",
        remedy="request the vfio devices in one request, or in several claims",
    ),
    KnownFailure(
        r"cannot apply (?P<config>\w+) to (?:device|request):? (?P<error>.+)",
        "the config {config} of the claim is for another kind of device than the one that was allocated",
        f"{_GPU}device_state.go validateDeviceConfigType; {DOMAIN_PLUGIN}device_state.go getConfigResultsMap",
        remedy="name in the config the requests that it is for, and write the config of their kind of device",
    ),
    KnownFailure(
        r"error (?:decoding config parameters|validating (?:GPU )?config|normalizing config|getting opaque device configs): "
        r"(?P<error>.+)",
        "the driver refuses the config of the claim: {error}",
        f"{_GPU}device_state.go GetOpaqueDeviceConfigs, normalizeAndValidateConfig; the same of compute-domain-kubelet-plugin",
        remedy="correct the config of the claim or its template, which gpu-admission review checks; then delete pod and claim",
    ),
    KnownFailure(
        r"unable to create CDI spec file for claim: (?P<error>.+)|failed to create CDI spec: (?P<spec_error>.+)",
        "the driver of node {node} cannot write the CDI file of the claim",
        f"{_GPU}device_state.go Prepare, cdi.go CreateClaimSpecFile; {DOMAIN_PLUGIN}device_state.go Prepare",
        administrator="look at /var/run/cdi on node {node}, which must be writable, and at the log of the driver's kubelet plugin",
    ),
    KnownFailure(
        r"unable to (?:get|update|create) checkpoint: (?P<error>.+)",
        "the driver of node {node} cannot read or write its record of prepared claims",
        f"{_GPU}device_state.go Prepare; {DOMAIN_PLUGIN}device_state.go Prepare",
        administrator=(
            "look at the plugin's folder in /var/lib/kubelet/plugins on node {node}: a full disk, or a file of a newer version"
        ),
    ),
    KnownFailure(
        r"error acquiring prep/unprep lock: (?P<error>.+)",
        "the driver of node {node} prepares or frees other claims for more than 10 seconds; the kubelet tries again",
        f"{_GPU}driver.go nodePrepareResource; {DOMAIN_PLUGIN}driver.go nodePrepareResource",
        administrator=f"{LOGS}, if it persists",
    ),
    # NVIDIA's driver for ComputeDomains and their IMEX channels.
    KnownFailure(
        r"channel (?P<channel>\d+) already allocated by claim (?P<claim_uid>\S+)",
        "IMEX channel {channel} of node {node} belongs to {holder}; a node gives each channel to one claim",
        f"{DOMAIN_PLUGIN}device_state.go assertImexChannelNotAllocated",
        remedy="end the other pod, or keep pods of ComputeDomains on different nodes",
    ),
    KnownFailure(
        r"current node not ready in ComputeDomain",
        "the ComputeDomain waits for the IMEX daemon of node {node}",
        f"{DOMAIN_PLUGIN}computedomain.go AssertComputeDomainReady",
        remedy="look at its status: kubectl get computedomains -n {namespace} -o yaml",
        administrator="look at the pods of the ComputeDomain's DaemonSet in the namespace of the DRA driver",
    ),
    KnownFailure(
        r"host nvidia-imex daemon (?:not ready|readiness check failed): (?P<error>.+)|\(is nvidia-imex installed on this node\?\)",
        "the IMEX daemon of node {node}, which the administrator runs (imex.mode hostManaged), is not ready",
        f"{DOMAIN_PLUGIN}nvlib.go checkHostIMEXReady",
        administrator="start nvidia-imex on node {node}, with IMEX_CMD_UNIX_DOMAIN_PATH set to the socket that the driver asks",
    ),
    KnownFailure(
        r"channel (?P<channel>\d+) out of range \(node has (?P<count>\d+) IMEX channels\)"
        r"|\"(?P<device>[^\"]+)\" is not an allocatable IMEX channel device",
        "node {node} does not have the IMEX channel that was allocated",
        f"{DOMAIN_PLUGIN}device_state.go applyComputeDomainChannelConfigHostManaged",
        administrator="compare NVreg_CreateImexChannel0 and the number of channels of the driver on all nodes",
    ),
    KnownFailure(
        r"the ResourceClaim's namespace is different than the ComputeDomain's namespace",
        "the claim names a ComputeDomain of another namespace",
        f"{DOMAIN_PLUGIN}computedomain.go AssertComputeDomainNamespace",
        remedy="create a ComputeDomain in namespace {namespace}, and use the claim template that it makes",
    ),
    KnownFailure(
        r"(?:ComputeDomain|compute domain) not found: (?P<domain>\S+)",
        "the ComputeDomain with uid {domain} of the claim was deleted",
        f"{DOMAIN_PLUGIN}computedomain.go AssertComputeDomainReady, GetCDIContainerEditsCommon",
        remedy="create the ComputeDomain and the pod anew; a claim keeps the uid of its ComputeDomain",
    ),
    KnownFailure(
        r"label already exists for a different ComputeDomain",
        "node {node} belongs to another ComputeDomain, and can be in one only",
        f"{DOMAIN_PLUGIN}computedomain.go AddNodeLabel",
        remedy="end the pods of the other ComputeDomain on this node, or keep this one off it",
    ),
    KnownFailure(
        r"ComputeDomain daemon claims are not supported when imex\.mode=hostManaged",
        "the claim is for the IMEX daemon of a ComputeDomain, which the administrator runs (imex.mode hostManaged)",
        f"{DOMAIN_PLUGIN}device_state.go applyComputeDomainDaemonConfig",
        administrator="remove the DaemonSet that is left from the other mode",
    ),
    KnownFailure(
        r"stale prepare for claim (?P<claim>\S+): claim prepare was already aborted",
        "the driver of node {node} has given up on this claim, because its pod was being deleted",
        f"{DOMAIN_PLUGIN}device_state.go Prepare",
        remedy=DELETE,
    ),
)
"""The rows of the driver, those that say most first."""
