"""The fields of `NVIDIADriver` (nvidia.com/v1alpha1), as GPU Operator 26.7 has them.

The notation is that of `policies.schema`. Source: the CRD in github.com/NVIDIA/gpu-operator config/crd/bases.
"""

from __future__ import annotations

from policies.configuration.schemas.blocks import BLOCKS
from policies.schema import parse_schema

__all__ = ["NVIDIA_DRIVER"]

NVIDIA_DRIVER = parse_schema(
    """
+ env, resources
annotations: {string}
args: [string]
certConfig: object
  name: string
default: boolean
driverType: string one of "gpu", "vgpu", "vgpu-host-manager"
gdrcopy: object
  + image, env
  args: [string]
  enabled: boolean
gds: object
  + image, env
  args: [string]
  enabled: boolean
hostNetwork: boolean
image: string
imagePullPolicy: string
imagePullSecrets: [string]
kernelModuleConfig: object
  name: string
kernelModuleType: string one of "auto", "open", "proprietary"
labels: {string}
licensingConfig: object
  name: string deprecated
  nlsEnabled: boolean
  secretName: string
livenessProbe: object
  + probe
manager: object
  + image, env
nodeAffinity: object
nodeSelector: {string}
podSecurityContext: object
priorityClassName: string
rdma: object
  enabled: boolean
  useHostMofed: boolean
readinessProbe: object
  + probe
repoConfig: object
  name: string
repository: string
secretEnv: string
startupProbe: object
  + probe
tolerations: [object]
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
useOpenKernelModules: boolean deprecated
usePrecompiled: boolean
version: string
virtualTopologyConfig: object
  name: string
""",
    BLOCKS,
)
