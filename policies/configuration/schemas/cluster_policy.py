"""The fields of `ClusterPolicy` (nvidia.com/v1), as GPU Operator 26.7 has them.

The notation is that of `policies.schema`. Source: the CRD in github.com/NVIDIA/gpu-operator config/crd/bases.
"""

from __future__ import annotations

from policies.configuration.schemas.blocks import BLOCKS
from policies.schema import parse_schema

__all__ = ["CLUSTER_POLICY"]

CLUSTER_POLICY = parse_schema(
    """
ccManager: object
  + component
  defaultMode: string one of "on", "off", "devtools"
cdi: object
  default: boolean deprecated
  enabled: boolean
  nriPluginEnabled: boolean
daemonsets!: object
  annotations: {string}
  labels: {string}
  podSecurityContext: object
  priorityClassName: string
  rollingUpdate: object
    maxUnavailable: string
  tolerations: [object]
  updateStrategy: string one of "RollingUpdate", "OnDelete"
dcgm!: object
  + component
  hostPort: integer deprecated
dcgmExporter!: object
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
devicePlugin!: object
  + component
  config: object
    default: string
    name: string
  mps: object
    root: string
driver!: object
  + component
  certConfig: object
    name: string
  kernelModuleConfig: object
    name: string
  kernelModuleType: string one of "auto", "open", "proprietary"
  licensingConfig: object
    configMapName: string deprecated
    nlsEnabled: boolean
    secretName: string
  livenessProbe: object
    + probe
  manager: object
    + image, env
  rdma: object
    enabled: boolean
    useHostMofed: boolean
  readinessProbe: object
    + probe
  repoConfig: object
    configMapName: string
  secretEnv: string
  startupProbe: object
    + probe
  upgradePolicy: object
    autoUpgrade: boolean
    drain: object
      deleteEmptyDir: boolean
      enable: boolean
      force: boolean
      podSelector: string
      timeoutSeconds: integer at least 0
    maxParallelUpgrades: integer at least 0
    maxUnavailable: int-or-string
    podDeletion: object
      deleteEmptyDir: boolean
      force: boolean
      timeoutSeconds: integer at least 0
    waitForCompletion: object
      podSelector: string
      timeoutSeconds: integer at least 0
  useNvidiaDriverCRD: boolean
  useOpenKernelModules: boolean deprecated
  usePrecompiled: boolean
  virtualTopology: object
    config: string
gdrcopy: object
  + image, env
  args: [string]
  enabled: boolean
gds: object
  + image, env
  args: [string]
  enabled: boolean
gfd!: object
  + component
hostPaths: object
  driverInstallDir: string
  kubeletRootDir: string
  rootFS: string
kataManager: object deprecated
  + component
  config: object
    artifactsDir: string
    runtimeClasses: [object]
      artifacts!: object
        pullSecret: string
        url!: string
      name!: string
      nodeSelector: {string}
kataSandboxDevicePlugin: object
  + component
mig: object
  strategy: string one of "none", "single", "mixed"
migManager: object
  + component
  config: object
    default: string one of "all-disabled", ""
    name: string
  gpuClientsConfig: object
    name: string
nodeStatusExporter!: object
  + component
operator!: object
  annotations: {string}
  defaultRuntime: string deprecated
  initContainer: object deprecated
    + image
  labels: {string}
  metrics: object
    serviceMonitor: object
      additionalLabels: {string}
      enabled: boolean
      honorLabels: boolean
      interval: string
      relabelings: [object]
      scrapeTimeout: string
  runtimeClass: string
  use_ocp_driver_toolkit: boolean
psa: object
  enabled: boolean
psp: object deprecated
  enabled: boolean
sandboxDevicePlugin: object
  + component
sandboxWorkloads: object
  defaultWorkload: string one of "container", "vm-passthrough", "vm-vgpu"
  enabled: boolean
  mode: string one of "kubevirt", "kata"
toolkit!: object
  + component
  installDir: string
validator: object
  + image, env, resources
  args: [string]
  cuda: object
    + env
  driver: object
    + env
  hostNetwork: boolean
  plugin: object
    + env
  toolkit: object
    + env
  vfioPCI: object
    + env
  vgpuDevices: object
    + env
  vgpuManager: object
    + env
vfioManager: object
  + component
  driverManager: object
    + image, env
vgpuDeviceManager: object
  + component
  config: object
    default: string
    name: string
vgpuManager: object
  + component
  driverManager: object
    + image, env
  kernelModuleConfig: object
    name: string
""",
    BLOCKS,
)
