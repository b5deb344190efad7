"""Messages of kubelets, drivers and container runtimes, as their sources format them, and a word of the row that has each."""

PREPARE = "Failed to prepare dynamic resources: prepare dynamic resources: "
OF_CLAIM = f"{PREPARE}NodePrepareResources failed for ResourceClaim train-gpu-x2k4m: error preparing devices for claim "
GPU = f"{OF_CLAIM}team-a/train-gpu-x2k4m:7d1f: "
DOMAIN = f"{OF_CLAIM}'team-a/train-gpu-x2k4m:7d1f': "
ALLOCATE = "Allocate failed due to {}, which is unexpected"
CONTAINERD = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start "
    "container process: error during container init: error running prestart hook #0: exit status 1, stdout: , stderr: "
)
NVIDIA_RUNTIME = (
    "failed to create containerd task: failed to create shim task: OCI runtime create failed: unable to retrieve OCI runtime error: "
    "exit status 1: could not apply required modification to OCI specification: error modifying OCI spec: "
)

TEXTS = (
    (f"{PREPARE}DRA driver gpu.nvidia.com is not registered", "GetPlugin"),
    (
        (
            f"{PREPARE}old ResourceClaim with same name train-gpu and different UID 5f0c1d7e still exists (previous pod "
            "force-deleted?!)"
        ),
        "earlier claim train-gpu",
    ),
    (
        f"{PREPARE}pod train (6a1b) is not allowed to use ResourceClaim train-gpu (7d1f)",
        "claim train-gpu is not reserved for this pod",
    ),
    (
        f'{PREPARE}fetch ResourceClaim train-gpu: resourceclaims.resource.k8s.io "train-gpu" not found',
        "claim train-gpu was deleted",
    ),
    (
        f'{PREPARE}fetch ResourceClaim train-gpu: Get "https://10.0.0.1:6443/apis": net/http: TLS handshake timeout',
        "cannot read claim train-gpu",
    ),
    (f"{PREPARE}ResourceClaim train-gpu: not allocated", "claim train-gpu has no devices"),
    (f'{PREPARE}pod "team-a/train": ResourceClaim not created yet', "does not exist"),
    (
        f"{PREPARE}ResourceClaim team-a/train-gpu was not created for Pod team-a/train (Pod is not owner)",
        "belongs to another pod",
    ),
    (
        f"{PREPARE}ResourceClaim team-a/train-gpu was not created for Pod team-a/train (neither Pod nor PodGroup ring is the owner)",
        "belongs to another pod",
    ),
    (
        f"{PREPARE}checkpoint ResourceClaim cache: could not save checkpoint dra_manager_state: no space left on device",
        "cannot write its record",
    ),
    (
        f"{GPU}unable to prepare claim 7d1f: requested device gpu-3 is already allocated to different claim 5f0c",
        "gpu-3 of node",
    ),
    (
        f"{GPU}unable to prepare claim 7d1f: requested device gpu-3 has conflicting configuration with already prepared claim 5f0c",
        "whose config differs",
    ),
    (
        f'{GPU}prepare devices failed: allocatable not found for device "gpu-0-mig-1g5gb-19-0"',
        "gpu-0-mig-1g5gb-19-0 was",
    ),
    (f"{DOMAIN}prepare devices failed: requested device is not allocatable: channel-7", "channel-7 was allocated"),
    (
        f"{GPU}prepare devices failed: error applying config: MPS control daemon is not yet ready: control daemon not yet ready",
        "MPS control daemon of the claim does not run yet",
    ),
    (
        f"{GPU}prepare devices failed: error applying config: MPS is not yet supported when using featureGates.DynamicMIG=true",
        "refuses beside another feature",
    ),
    (
        (
            f"{GPU}prepare devices failed: error applying config: error starting MPS control daemon: failed to create deployment: "
            "namespaces is being terminated"
        ),
        "cannot start the MPS control daemon",
    ),
    (
        (
            f"{GPU}prepare devices failed: error applying config: error setting timeslice config for requests '[gpu]' in claim '7d1f': "
            "error setting time slice: exit status 1"
        ),
        "the time slice of the GPU",
    ),
    (
        f"{GPU}prepare devices failed: error creating MIG device: error creating GPU instance: Insufficient Resources",
        "cannot create the MIG device",
    ),
    (
        f"{GPU}unprepare failed for partially prepared claim team-a/train-gpu-x2k4m:7d1f failed: error deactivating fabric partition",
        "cannot undo a first attempt",
    ),
    (
        (
            f'{GPU}prepare devices failed: error applying config: error configuring vfio device "gpu-vfio-0": error waiting for GPU '
            '"0000:0f:00.0" to be free: timed out waiting for gpu to be free: gpu device "0000:0f:00.0" has open fds by process(es): "42"'
        ),
        "processes on node",
    ),
    (f"{GPU}prepare devices failed: IOMMU is not enabled in the kernel", "its kernel has no IOMMU"),
    (
        f"{GPU}prepare devices failed: activating fabric partition 3: fabric manager error",
        "no partition that Fabric Manager can activate",
    ),
    (
        (
            f"{GPU}prepare devices failed: claim team-a/train-gpu-x2k4m:7d1f contains 2 VFIO device groups, but at most one is supported "
            "per claim"
        ),
        "2 groups of vfio devices",
    ),
    (
        f'{GPU}prepare devices failed: cannot apply MigDeviceConfig to device "gpu-0" of type "gpu" (request: gpu)',
        "the config MigDeviceConfig",
    ),
    (
        f"{GPU}prepare devices failed: error validating GPU config: unknown GPU sharing strategy: Exclusive",
        "refuses the config of the claim: unknown GPU sharing strategy: Exclusive",
    ),
    (
        f"{GPU}unable to create CDI spec file for claim: failed to create CDI spec: open /var/run/cdi/x.yaml: read-only file system",
        "cannot write the CDI file",
    ),
    (f"{GPU}unable to get checkpoint: checkpoint is corrupted", "read or write its record of prepared claims"),
    (
        f"{PREPARE}NodePrepareResources failed for ResourceClaim train-gpu-x2k4m: error acquiring prep/unprep lock: timeout (10s)",
        "for more than 10 seconds",
    ),
    (
        (
            f"{DOMAIN}prepare devices failed: error applying config: allocation failed: channel 0 already allocated by claim 5f0c "
            "(according to checkpoint)"
        ),
        "IMEX channel 0 of node",
    ),
    (
        (
            f"{DOMAIN}prepare devices failed: error applying config: error asserting ComputeDomain Ready: current node not ready in "
            "ComputeDomain"
        ),
        "waits for the IMEX daemon",
    ),
    (
        (
            f"{DOMAIN}prepare devices failed: error applying config: host nvidia-imex daemon readiness check failed: host nvidia-imex "
            "daemon not ready: INITIALIZING"
        ),
        "which the administrator runs (imex.mode hostManaged), is not ready",
    ),
    (
        (
            f"{DOMAIN}prepare devices failed: applyComputeDomainChannelConfigHostManaged: channel 9 out of range (node has 1 IMEX "
            "channels)"
        ),
        "does not have the IMEX channel",
    ),
    (
        (
            f"{DOMAIN}prepare devices failed: error applying config: error asserting ComputeDomain's namespace: the ResourceClaim's "
            "namespace is different than the ComputeDomain's namespace"
        ),
        "a ComputeDomain of another namespace",
    ),
    (f"{DOMAIN}prepare devices failed: ComputeDomain not found: 0a1b-2c3d", "uid 0a1b-2c3d of the claim was deleted"),
    (
        f"{DOMAIN}error adding Node label for ComputeDomain: label already exists for a different ComputeDomain",
        "belongs to another ComputeDomain",
    ),
    (
        f"{DOMAIN}ComputeDomain daemon claims are not supported when imex.mode=hostManaged",
        "for the IMEX daemon of a ComputeDomain",
    ),
    (
        f"{DOMAIN}stale prepare for claim team-a/train-gpu-x2k4m:7d1f: claim prepare was already aborted",
        "given up on this claim",
    ),
    (f"{PREPARE}NodePrepareResources skipped 1 ResourceClaims", "no answer about 1 claims"),
    (
        f"{PREPARE}NodePrepareResources: rpc error: code = DeadlineExceeded desc = context deadline exceeded",
        "did not answer in 45 seconds",
    ),
    (
        f"{PREPARE}NodePrepareResources: rpc error: code = Unavailable desc = connection error: desc = dial unix: no such file",
        "cannot reach the driver's plugin",
    ),
    (
        ALLOCATE.format(
            'rpc error: code = Unknown desc = invalid allocation request for "nvidia.com/gpu.shared": invalid request: maximum request '
            "size for shared resources is 1; found 2"
        ),
        "requests 2 shares",
    ),
    (
        ALLOCATE.format(
            'rpc error: code = Unknown desc = invalid allocation request for "nvidia.com/gpu": invalid request: unknown device: GPU-1'
        ),
        "chose device GPU-1",
    ),
    (
        ALLOCATE.format(
            "rpc error: code = Unknown desc = failed to get allocate response: failed to get allocate response for CDI: no spec"
        ),
        "cannot name the CDI devices",
    ),
    (
        ALLOCATE.format("requested number of devices unavailable for nvidia.com/gpu. Requested: 2, Available: 1"),
        "had 1 free healthy nvidia.com/gpu and needed 2",
    ),
    (
        ALLOCATE.format("cannot allocate unregistered device nvidia.com/gpu"),
        "plugin of nvidia.com/gpu had not registered",
    ),
    (
        ALLOCATE.format("no healthy devices present; cannot allocate unhealthy devices nvidia.com/gpu"),
        "every nvidia.com/gpu of node",
    ),
    (
        ALLOCATE.format(
            "previously allocated devices are no longer healthy; cannot allocate unhealthy devices nvidia.com/gpu"
        ),
        "before node",
    ),
    (ALLOCATE.format("unknown Device Plugin nvidia.com/gpu"), "stopped on node"),
    (
        ALLOCATE.format("device plugin GetPreferredAllocation rpc failed with err: rpc error: code = Unavailable"),
        "asked it which devices to give",
    ),
    (
        "Node didn't have enough resource: nvidia.com/gpu, requested: 1, used: 8, capacity: 8",
        "had 8 nvidia.com/gpu, of which",
    ),
    ("Resources cannot be allocated with Topology locality", "on one NUMA node"),
    (
        (
            "failed to generate container spec: failed to generate spec: failed to inject devices: CDI device injection failed: "
            "unresolvable CDI devices k8s.gpu.nvidia.com/claim=7d1f-gpu-0"
        ),
        "no CDI file that has k8s.gpu.nvidia.com/claim=7d1f-gpu-0",
    ),
    (
        f"{NVIDIA_RUNTIME}failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=GPU-1",
        "no CDI file that has nvidia.com/gpu=GPU-1",
    ),
    (
        (
            'Failed to create pod sandbox: rpc error: code = Unknown desc = failed to get sandbox runtime: no runtime for "nvidia" is '
            "configured"
        ),
        "does not know the handler",
    ),
    (
        (
            "Failed to create pod sandbox: rpc error: code = Unknown desc = failed to find runtime handler nvidia from runtime list "
            "map[crun:0xc0]"
        ),
        "does not know the handler",
    ),
    (
        (
            f"{CONTAINERD}nvidia-container-cli: requirement error: unsatisfied condition: cuda>=13.0, please update your driver to a newer "
            "version, or use an earlier cuda container: unknown"
        ),
        "requires a newer driver",
    ),
    (f"{CONTAINERD}nvidia-container-cli: device error: 3: unknown device: unknown", "does not exist on node"),
    (
        f"{CONTAINERD}nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown",
        "is not loaded, or its library",
    ),
    (
        f"{CONTAINERD}nvidia-container-cli.real: ldcache error: open failed: /sbin/ldconfig: no such file or directory: unknown",
        "cannot put the driver into the container",
    ),
    (
        f"{CONTAINERD}invoking the NVIDIA Container Runtime Hook directly (e.g. specifying the docker --gpus flag) is not supported",
        "without the NVIDIA runtime",
    ),
    (
        f"{NVIDIA_RUNTIME}requesting a CDI device with vendor 'runtime.nvidia.com' is not supported when requesting other CDI devices",
        "gets GPUs twice",
    ),
    (
        "OCI runtime create failed: no runtime binary found from candidate list: [runc crun]: unknown",
        "finds neither runc nor crun",
    ),
    (
        f'{NVIDIA_RUNTIME}failed to construct CDI library for mode "nvml": failed to locate driver libraries',
        "cannot describe the GPUs",
    ),
)
