"""Kinds: objects of kinds and versions that do not exist, and shapes that lost their indentation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Checks, Problem, problem
from policies.decision import Severity
from policies.dra.claims.nvidia.schemas import TYPE_OF
from policies.kubernetes.misspellings import closest
from policies.kubernetes.paths import FieldPath

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change

__all__ = ["ANY_KIND"]

_VERSIONS = {
    "ClusterPolicy": "nvidia.com/v1",
    "NVIDIADriver": "nvidia.com/v1alpha1",
    "GPUCluster": "nvidia.com/v1alpha1",
    "ComputeDomain": "resource.nvidia.com/v1beta1",
    "ComputeDomainClique": "resource.nvidia.com/v1beta1",
}
"""Kinds of the GPU Operator and the DRA driver, and the version that serves each."""

ANY_KIND: Checks[Change] = Checks(*_VERSIONS)

_WITHOUT_SPEC = frozenset({"ComputeDomainClique"})
"""Kinds with fields of their own beside `metadata`."""
_GUESSES = {"GPUClusterPolicy": "ClusterPolicy", "GpuClusterPolicy": "ClusterPolicy"}
_NEVER_KINDS = frozenset({"Device"})
"""Kinds that guides teach and that no operator has."""
_SHARED_GROUP = "nvidia.com"
"""The group of the GPU Operator, and of Dynamo's DynamoGraphDeployment and its relatives."""
_GROUPS = (_SHARED_GROUP, "gpu.nvidia.com", "resource.nvidia.com")
_OBJECT_KEYS = frozenset({"apiVersion", "kind", "metadata", "spec", "status"})


@ANY_KIND.rule(
    "GA100",
    "The kind and the version of an object must exist",
    default=Severity.DENY,
    remedy="write a kind that exists",
    source="github.com/NVIDIA/gpu-operator config/crd/bases; the CRDs of dra-driver-nvidia-gpu and its "
    "api/nvidia.com/resource/v1beta1; github.com/ai-dynamo/dynamo deploy/operator/config/crd/bases",
    rows=("S-33", "S-38"),
)
def existing_kind(change: Change) -> Iterator[Problem]:
    """Kubectl refuses the object with "no matches for kind", which does not say what the kind is called.

    Published guides use kinds that never existed, and versions of other kinds. The kinds of configs, such as GpuConfig,
    are parameters in a claim and no objects of their own. Kinds of other operators in the group nvidia.com are not judged.
    """
    group, _, _ = change.api_version.rpartition("/")
    meant = _GUESSES.get(change.kind) or (closest(change.kind, _VERSIONS) if group in _GROUPS else None)
    if group in _GROUPS and change.kind in TYPE_OF:
        text = f'"{change.kind}" is a part of claims, not an object; kubectl would refuse it with: no matches for kind'
        remedy = "move it into devices.config[].opaque.parameters of a ResourceClaim or ResourceClaimTemplate"
        yield problem(FieldPath(["kind"]), text, remedy)
    elif group in _GROUPS and change.kind not in _VERSIONS:
        if meant is None and group == _SHARED_GROUP and change.kind not in _NEVER_KINDS:
            return
        listed = ", ".join(sorted(kind for kind, version in _VERSIONS.items() if version.startswith("nvidia.com/")))
        remedy = (
            f"write apiVersion: {_VERSIONS[meant]} and kind: {meant}" if meant else f"there are {listed}; remove it"
        )
        # A newer driver may have more kinds, so only what looks like one of these is a mistake.
        severity = None if meant or change.kind in _NEVER_KINDS else Severity.AUDIT
        yield problem(FieldPath(["kind"]), f'"{change.kind}" is not a kind of {group}', remedy, severity=severity)
    elif group in _GROUPS and change.api_version != _VERSIONS[change.kind]:
        right = _VERSIONS[change.kind]
        path = FieldPath(["apiVersion"])
        yield problem(path, f'"{change.api_version}" does not serve {change.kind}', f"write apiVersion: {right}")


@ANY_KIND.rule(
    "GA104",
    "The fields of an object must be indented below spec",
    default=Severity.DENY,
    remedy="indent the lines below spec",
    source="published guides, where copying lost the indentation",
    rows=("S-34", "S-44", "S-67"),
)
def kept_indentation(change: Change) -> Iterator[Problem]:
    """Without its indentation a manifest has an empty spec, and the fields beside it are dropped.

    What is applied then is an object with every default.
    """
    if (change.kind not in _VERSIONS and change.kind not in _GUESSES) or change.kind in _WITHOUT_SPEC:
        return
    stray = [key for key in change.object if key not in _OBJECT_KEYS]
    if stray and not isinstance(change.object.get("spec"), dict):
        text = f"is empty, and {', '.join(stray[:3])} stand beside it; the indentation seems lost"
        yield problem(FieldPath(["spec"]), text)
    elif stray:
        yield problem(
            FieldPath([stray[0]]), "stands beside spec, where the API server drops it", "indent it below spec"
        )
    for found in change.schema_problems:
        if found.kind == "null":
            yield problem(found.path, found.message, found.remedy, severity=Severity.WARN)
