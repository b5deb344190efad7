"""Names that NVIDIA's components define: resources, labels of nodes, DRA drivers, feature gates."""

from __future__ import annotations

__all__ = [
    "CHANNEL_CLASS",
    "COMPUTE_DOMAIN_DRIVER",
    "COMPUTE_LABELS",
    "COUNT_LABEL",
    "CUDA_VERSION_LABEL",
    "DEPLOY_OPERANDS_LABEL",
    "DRIVER",
    "DRIVER_VERSION_LABEL",
    "FAMILY_LABEL",
    "GPU_RESOURCE",
    "MEMORY_LABEL",
    "MIG_CAPABLE_LABEL",
    "MIG_CONFIG_LABEL",
    "MIG_STRATEGY_LABEL",
    "OFF_BY_DEFAULT",
    "ON_BY_DEFAULT",
    "PLUGIN_CONFIG_LABEL",
    "PRESENT_LABEL",
    "PRODUCT_LABEL",
    "VENDOR_PREFIX",
]

VENDOR_PREFIX = "nvidia.com/"
"""The prefix of the resources of NVIDIA's device plugins, and of their labels."""

GPU_RESOURCE = "nvidia.com/gpu"
"""The resource of whole GPUs, and of MIG devices or shares where the device plugin advertises them under this name."""

DRIVER = "gpu.nvidia.com"
"""Publishes GPUs and MIG devices. Source: github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin."""

COMPUTE_DOMAIN_DRIVER = "compute-domain.nvidia.com"
"""Publishes the channels and daemons of ComputeDomains. Source: there, cmd/compute-domain-kubelet-plugin."""
CHANNEL_CLASS = "compute-domain-default-channel.nvidia.com"
"""The DeviceClass of the channel that a ComputeDomain gives its pods. Source: there, cmd/compute-domain-controller."""

# Labels of GPU Feature Discovery. Source: github.com/NVIDIA/k8s-device-plugin docs/gpu-feature-discovery.
PRODUCT_LABEL = "nvidia.com/gpu.product"
"""The product of a node's GPUs, or of its MIG devices under the single strategy."""
FAMILY_LABEL = "nvidia.com/gpu.family"
MEMORY_LABEL = "nvidia.com/gpu.memory"
COUNT_LABEL = "nvidia.com/gpu.count"
COMPUTE_LABELS = ("nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor")
MIG_CAPABLE_LABEL = "nvidia.com/mig.capable"
MIG_STRATEGY_LABEL = "nvidia.com/mig.strategy"
DRIVER_VERSION_LABEL = "nvidia.com/cuda.driver-version.full"
CUDA_VERSION_LABEL = "nvidia.com/cuda.runtime-version.full"

# Labels of the GPU Operator.
PRESENT_LABEL = "nvidia.com/gpu.present"
"""On nodes with a GPU, before any component hands the GPUs out."""
MIG_CONFIG_LABEL = "nvidia.com/mig.config"
"""The configuration of the MIG manager that a node is to have."""
PLUGIN_CONFIG_LABEL = "nvidia.com/device-plugin.config"
"""The key of the ConfigMap that the device plugin of a node reads."""
DEPLOY_OPERANDS_LABEL = "nvidia.com/gpu.deploy.operands"
"""`false` keeps all components of the operator away from a node."""


OFF_BY_DEFAULT = frozenset(
    {
        *("TimeSlicingSettings", "MPSSupport", "PassthroughSupport", "DynamicMIG", "NVMLDeviceHealthCheck"),
        *("DeviceMetadata", "FabricManagerPartitioning", "HostManagedIMEXDaemon", "DRAListTypeAttributes"),
        *("ConsumableShares", "AllAlpha", "AllBeta", "LoggingAlphaOptions"),
    }
)
"""All of these are alpha, except the names of whole stages."""
ON_BY_DEFAULT = frozenset(
    {
        *("IMEXDaemonsWithDNSNames", "ComputeDomainCliques", "CrashOnNVLinkFabricErrors"),
        *("ContextualLogging", "LoggingBetaOptions"),
    }
)
