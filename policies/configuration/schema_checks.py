"""Schema: what the CRDs allow, in better words than the API server has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Checks, Problem, problem
from policies.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.schema import SchemaProblem

__all__ = ["SCHEMA"]

SCHEMA: Checks[Change] = Checks()

_CHOICES = {
    (
        "driver.kernelModuleType",
        "precompiled",
    ): 'write usePrecompiled: true with a driver branch such as version: "580"',
    ("kernelModuleType", "precompiled"): 'write usePrecompiled: true with a driver branch such as version: "580"',
    ("driver.kernelModuleType", "runcompiled"): "write kernelModuleType: auto, and usePrecompiled: false",
    ("kernelModuleType", "runcompiled"): "write kernelModuleType: auto, and usePrecompiled: false",
}
"""What guides teach in place of a choice that exists."""

_ELSEWHERE = {
    "cuda": "remove it; CUDA comes with the images of workloads",
    "nfd": "set it as a value of the Helm chart; it is no field of the resource",
    "node-feature-discovery": "set it as a value of the Helm chart; it is no field of the resource",
    "clusterPolicy": "set it as a value of the Helm chart; it is no field of the resource",
    "runtimeClassName": "write it under operator, as runtimeClass",
    "driver.nvidiaDriverCRD": "write useNvidiaDriverCRD: true; the rest are values of the Helm chart",
    "driver.gds": "write it as spec.gds",
    "driver.gdrcopy": "write it as spec.gdrcopy",
    "driver.certConfig.configMapName": 'write "name"',
    "driver.upgradePolicy.gpuPodDeletion": 'write "podDeletion"',
    "devicePlugin.config.create": "make the ConfigMap yourself; creating it is the Helm chart's",
    "devicePlugin.config.data": "make the ConfigMap yourself; creating it is the Helm chart's",
    "migManager.config.create": "make the ConfigMap yourself; creating it is the Helm chart's",
    "migManager.config.data": "make the ConfigMap yourself; creating it is the Helm chart's",
    "repoConfig.configMapName": 'write "name"; configMapName is the field of a ClusterPolicy',
    "licensingConfig.configMapName": 'write "secretName"; configMapName is the field of a ClusterPolicy',
    "virtualTopology": 'write "virtualTopologyConfig"; virtualTopology is the field of a ClusterPolicy',
    "hostPaths.rootFS": "remove it; a GPUCluster has no such path",
}
"""Fields that are somewhere else, by their path in the spec."""


def _problems(change: Change, *kinds: str) -> Iterator[SchemaProblem]:
    return (found for found in change.schema_problems if found.kind in kinds)


def _inside(found: SchemaProblem) -> str:
    return ".".join(str(step) for step in found.path[1:])


@SCHEMA.rule(
    "GA101",
    "Fields have the types and values that the CRD allows",
    default=Severity.DENY,
    remedy="write a value that the CRD allows",
    source="github.com/NVIDIA/gpu-operator config/crd/bases",
    rows=("J-11", "S-11", "S-13"),
    wrong="""
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec:
      driver:
        kernelModuleType: precompiled""",
    right="""
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec:
      driver:
        usePrecompiled: true
        version: "580" """,
)
def allowed_values(change: Change) -> Iterator[Problem]:
    """The API server refuses the object, but says only which values there are.

    Two mistakes are common enough to deserve better: `precompiled` and `runcompiled` are words of guides and no module
    types, and `on` or `off` without quotes is a boolean in YAML. Turn this rule off to see the API server's own words.
    """
    for found in _problems(change, "required", "type", "choice", "bound"):
        value = change.value(*found.path[1:])
        remedy = _CHOICES.get((_inside(found), value)) if isinstance(value, str) else None
        if isinstance(value, bool) and found.path[-1] == "defaultMode":
            remedy = f'write "{"on" if value else "off"}", in quotes; YAML reads it as {str(value).lower()} without'
        yield problem(found.path, found.message, remedy or found.remedy)


@SCHEMA.rule(
    "GA102",
    "Fields exist",
    default=Severity.DENY,
    remedy="remove it",
    source="github.com/NVIDIA/gpu-operator config/crd/bases; structural schemas prune what they do not know",
    rows=("A-08", "D-08", "E-12", "K-15", "L-06", "S-35", "S-65"),
    wrong="""
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec:
      driver:
        upgradePolicy:
          gpuPodDeletion: {force: true}""",
    right="""
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec:
      driver:
        upgradePolicy:
          podDeletion: {force: true}""",
)
def known_fields(change: Change) -> Iterator[Problem]:
    """The API server drops a field that the CRD does not have, before any webhook sees it.

    `kubectl apply` says so; Helm, Argo CD and controllers do not, and the setting never takes effect. A field that looks
    like a mistyped one is refused, any other is warned about: the operator may be newer than this list (26.7).
    """
    for found in _problems(change, "unknown"):
        elsewhere = _ELSEWHERE.get(_inside(found))
        mistyped = elsewhere is not None or found.remedy.startswith("write ")
        severity = None if mistyped else Severity.WARN
        yield problem(found.path, found.message, elsewhere or found.remedy, severity=severity)


@SCHEMA.rule(
    "GA103",
    "Fields are not deprecated",
    default=Severity.WARN,
    remedy="remove it",
    source="github.com/NVIDIA/gpu-operator api/nvidia/v1/clusterpolicy_types.go",
    rows=("F-03", "F-13", "I-17", "J-13", "C-13", "S-17", "S-60", "S-66"),
    wrong="""
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec:
      cdi: {enabled: true, default: true}""",
    right="""
    apiVersion: nvidia.com/v1
    kind: ClusterPolicy
    metadata: {name: cluster-policy}
    spec:
      cdi: {enabled: true}""",
)
def current_fields(change: Change) -> Iterator[Problem]:
    """The field is still accepted and does nothing, or does what another field does better.

    What somebody meant to set by it is not set.
    """
    for found in _problems(change, "deprecated"):
        instead = _INSTEAD.get(_inside(found))
        yield problem(found.path, found.message, instead)


_INSTEAD = {
    "driver.useOpenKernelModules": "write kernelModuleType: open in its place",
    "driver.licensingConfig.configMapName": "put the licence into a Secret and write secretName",
    "licensingConfig.name": "put the licence into a Secret and write secretName",
    "useOpenKernelModules": "write kernelModuleType: open in its place",
    "kataManager": "remove it; the operator deploys no kata-manager any more",
}
