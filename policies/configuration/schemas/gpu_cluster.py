"""The fields of `GPUCluster` (nvidia.com/v1alpha1), as GPU Operator 26.7 has them.

The notation is that of `policies.schema`. Source: the CRD in github.com/NVIDIA/gpu-operator config/crd/bases.
"""

from __future__ import annotations

from policies.configuration.schemas.blocks import BLOCKS
from policies.schema import parse_schema

__all__ = ["GPU_CLUSTER"]

GPU_CLUSTER = parse_schema(
    """
daemonsets: object
  annotations: {string}
  labels: {string}
  podSecurityContext: object
  priorityClassName: string
  rollingUpdate: object
    maxUnavailable: string
  tolerations: [object]
  updateStrategy: string one of "RollingUpdate", "OnDelete"
dcgm: object
  + component
  hostPort: integer deprecated
dcgmExporter: object
  + component
  annotations: {string}
  config: object
    name: string
  enablePodLabels: boolean
  enablePodUID: boolean
  hostPID: boolean
  hpcJobMapping: object
    directory: string
    enabled: boolean
  podLabelAllowlistRegex: [string]
  service: object
    internalTrafficPolicy: string
    type: string
  serviceMonitor: object
    additionalLabels: {string}
    enabled: boolean
    honorLabels: boolean
    interval: string
    relabelings: [object]
    scrapeTimeout: string
draDriver!: object
  + image
  computeDomains: object
    controller: object
      + env, resources
    enabled: boolean
    kubeletPlugin: object
      + env, resources
      healthcheck: object
        enabled: boolean
        port: integer at least 1; at most 65535
  featureGates: {boolean}
  gpus: object
    kubeletPlugin: object
      + env, resources
      healthcheck: object
        enabled: boolean
        port: integer at least 1; at most 65535
hostPaths: object
  driverInstallDir: string
  kubeletRootDir: string
""",
    BLOCKS,
)
