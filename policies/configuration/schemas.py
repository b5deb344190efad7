"""Blocks of fields that the components of the GPU Operator share."""

from __future__ import annotations

from policies.kubernetes.schema import parse_schema

BLOCKS = {
    "env": "env: [object]\n  name!: string\n  value: string",
    "name": "name: string",
    "image": "image: string\nimagePullPolicy: string\nimagePullSecrets: [string]\nrepository: string\nversion: string",
    "resources": "resources: object\n  limits: {quantity}\n  requests: {quantity}",
    "sidecar": "+ image, env\nargs: [string]\nenabled: boolean",
    "component": "+ env, image, resources\nargs: [string]\nenabled: boolean\nhostNetwork: boolean",
    "plugin": "+ env, resources\nhealthcheck: object\n  enabled: boolean\n  port: integer at least 1; at most 65535",
    "probe": "failureThreshold: integer at least 1\ninitialDelaySeconds: integer\nperiodSeconds: integer at least 1\n"
    "successThreshold: integer at least 1\ntimeoutSeconds: integer at least 1",
    "pod_security": """
podSecurityContext: object
  appArmorProfile: object
    localhostProfile: string
    type!: string
  fsGroup: integer
  fsGroupChangePolicy: string
  runAsGroup: integer
  runAsNonRoot: boolean
  runAsUser: integer
  seLinuxChangePolicy: string
  seLinuxOptions: object
    level: string
    role: string
    type: string
    user: string
  seccompProfile: object
    localhostProfile: string
    type!: string
  supplementalGroups: [integer]
  supplementalGroupsPolicy: string
  sysctls: [object]
    name!: string
    value!: string
  windowsOptions: object
    gmsaCredentialSpec: string
    gmsaCredentialSpecName: string
    hostProcess: boolean
    runAsUserName: string""",
    "expressions": """
matchExpressions: [object]
  key!: string
  operator!: string
  values: [string]
matchFields: [object]
  key!: string
  operator!: string
  values: [string]""",
    "daemonsets": """
annotations: {string}
labels: {string}
+ pod_security
priorityClassName: string
rollingUpdate: object
  maxUnavailable: string
updateStrategy: string one of "RollingUpdate", "OnDelete"
tolerations: [object]""",
    "exporter": """
annotations: {string}
config: object + name
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
serviceMonitor: object + monitor""",
    "monitor": """
additionalLabels: {string}
enabled: boolean
honorLabels: boolean
interval: string
relabelings: [object]
  action: string one of "replace", "Replace", "keep", "Keep", "drop", "Drop", "hashmod", "HashMod", "labelmap", "LabelMap", \
"labeldrop", "LabelDrop", "labelkeep", "LabelKeep", "lowercase", "Lowercase", "uppercase", "Uppercase", "keepequal", \
"KeepEqual", "dropequal", "DropEqual"
  modulus: integer at least 0
  regex: string
  replacement: string
  separator: string
  sourceLabels: [string]
  targetLabel: string
scrapeTimeout: string""",
    "upgrades": """
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
  timeoutSeconds: integer at least 0""",
}
"""Fields that several components have, by the names that schemas use."""


CLUSTER_POLICY = parse_schema(
    """
ccManager: object + component
  defaultMode: string one of "on", "off", "devtools"
cdi: object
  default: boolean deprecated
  enabled: boolean
  nriPluginEnabled: boolean
daemonsets!: object + daemonsets
dcgm!: object + component
  hostPort: integer deprecated
dcgmExporter!: object + component, exporter
devicePlugin!: object + component
  config: object
    default: string
    name: string
  mps: object
    root: string
driver!: object + component
  certConfig: object + name
  kernelModuleConfig: object + name
  kernelModuleType: string one of "auto", "open", "proprietary"
  licensingConfig: object
    configMapName: string deprecated
    nlsEnabled: boolean
    secretName: string
  livenessProbe: object + probe
  manager: object + image, env
  rdma: object
    enabled: boolean
    useHostMofed: boolean
  readinessProbe: object + probe
  repoConfig: object
    configMapName: string
  secretEnv: string
  startupProbe: object + probe
  upgradePolicy: object + upgrades
  useNvidiaDriverCRD: boolean
  useOpenKernelModules: boolean deprecated
  usePrecompiled: boolean
  virtualTopology: object
    config: string
gdrcopy: object + sidecar
gds: object + sidecar
gfd!: object + component
hostPaths: object
  driverInstallDir: string
  kubeletRootDir: string
  rootFS: string
kataManager: object deprecated + component
  config: object
    artifactsDir: string
    runtimeClasses: [object]
      artifacts!: object
        pullSecret: string
        url!: string
      name!: string
      nodeSelector: {string}
kataSandboxDevicePlugin: object + component
mig: object
  strategy: string one of "none", "single", "mixed"
migManager: object + component
  config: object
    default: string one of "all-disabled", ""
    name: string
  gpuClientsConfig: object + name
nodeStatusExporter!: object + component
operator!: object
  annotations: {string}
  defaultRuntime: string deprecated
  initContainer: object deprecated + image
  labels: {string}
  metrics: object
    serviceMonitor: object + monitor
  runtimeClass: string
  use_ocp_driver_toolkit: boolean
psa: object
  enabled: boolean
psp: object deprecated
  enabled: boolean
sandboxDevicePlugin: object + component
sandboxWorkloads: object
  defaultWorkload: string one of "container", "vm-passthrough", "vm-vgpu"
  enabled: boolean
  mode: string one of "kubevirt", "kata"
toolkit!: object + component
  installDir: string
validator: object + image, env, resources
  args: [string]
  cuda: object + env
  driver: object + env
  hostNetwork: boolean
  plugin: object + env
  toolkit: object + env
  vfioPCI: object + env
  vgpuDevices: object + env
  vgpuManager: object + env
vfioManager: object + component
  driverManager: object + image, env
vgpuDeviceManager: object + component
  config: object
    default: string
    name: string
vgpuManager: object + component
  driverManager: object + image, env
  kernelModuleConfig: object + name
""",
    BLOCKS,
)


GPU_CLUSTER = parse_schema(
    """
daemonsets: object + daemonsets
dcgm: object + component
  hostPort: integer deprecated
dcgmExporter: object + component, exporter
draDriver!: object + image
  computeDomains: object
    controller: object + env, resources
    enabled: boolean
    kubeletPlugin: object + plugin
  featureGates: {boolean}
  gpus: object
    kubeletPlugin: object + plugin
hostPaths: object
  driverInstallDir: string
  kubeletRootDir: string
""",
    BLOCKS,
)


NVIDIA_DRIVER = parse_schema(
    """
+ env, resources
annotations: {string}
args: [string]
certConfig: object + name
default: boolean
driverType: string one of "gpu", "vgpu", "vgpu-host-manager"
gdrcopy: object + sidecar
gds: object + sidecar
hostNetwork: boolean
image: string
imagePullPolicy: string
imagePullSecrets: [string]
kernelModuleConfig: object + name
kernelModuleType: string one of "auto", "open", "proprietary"
labels: {string}
licensingConfig: object
  name: string deprecated
  nlsEnabled: boolean
  secretName: string
livenessProbe: object + probe
manager: object + image, env
nodeAffinity: object
  preferredDuringSchedulingIgnoredDuringExecution: [object]
    preference!: object + expressions
    weight!: integer
  requiredDuringSchedulingIgnoredDuringExecution: object
    nodeSelectorTerms!: [object] + expressions
nodeSelector: {string}
+ pod_security
priorityClassName: string
rdma: object
  enabled: boolean
  useHostMofed: boolean
readinessProbe: object + probe
repoConfig: object + name
repository: string
secretEnv: string
startupProbe: object + probe
tolerations: [object]
upgradePolicy: object + upgrades
useOpenKernelModules: boolean deprecated
usePrecompiled: boolean
version: string
virtualTopologyConfig: object + name
""",
    BLOCKS,
)


SCHEMAS = {"ClusterPolicy": CLUSTER_POLICY, "NVIDIADriver": NVIDIA_DRIVER, "GPUCluster": GPU_CLUSTER}
"""By kind; each is of the object's `spec`."""
