"""Fields that CRDs and settings do not allow, in clearer words."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.configuration.change import APPLIED, CLUSTER_POLICY, OPERATOR, SPEC, applied_spec
from policies.configuration.schemas import SCHEMAS
from policies.kubernetes.names import closest
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.schema import find_problems
from policies.nvidia.config_grammar import TYPE_OF
from policies.rules.checks import Problem, RulesOn
from policies.rules.decision import Severity
from policies.rules.idle_settings import RULE_NAME_REMEDY, idle_settings, ineffective_names
from policies.rules.settings import SettingsError, parse_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.configuration.change import Change
    from policies.kubernetes.schema import Field, SchemaProblem
    from policies.rules.checks import RuleBook
    from policies.rules.settings import GPUAdmissionPolicy


_FEWEST_MISSING = 3
"""The least number of required fields that a patch lacks; fewer can be forgotten."""

_CHOICES = {
    "precompiled": 'write usePrecompiled: true with a driver branch such as version: "580"',
    "runcompiled": "write kernelModuleType: auto, and usePrecompiled: false",
}
"""Module types in guides that do not exist, and what to write instead."""

_ELSEWHERE = {
    "cuda": "remove it; CUDA comes with the images of workloads",
    "nfd": "set it as a value of the Helm chart; it is not a field of the resource",
    "node-feature-discovery": "set it as a value of the Helm chart; it is not a field of the resource",
    "clusterPolicy": "set it as a value of the Helm chart; it is not a field of the resource",
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


_REVIEW_OUTPUT = "review the output of `kubectl kustomize`"


def _problems(change: Change, *kinds: str) -> Iterator[SchemaProblem]:
    return (found for found in change.schema_problems if found.kind in kinds)


def _as_patch(change: Change) -> Iterator[Problem]:
    """That an object looks like a patch; nothing if it does not."""
    required = [name for name, field in SCHEMAS[change.kind].fields.items() if field.required]
    missing = [name for name in required if change.spec.get(name) is None]
    if _has_directive(change.spec):
        text = "looks like a patch, because it has directives of kustomize"
        yield Problem(SPEC, text, _REVIEW_OUTPUT, severity=Severity.WARN)
    elif change.spec and len(missing) >= _FEWEST_MISSING and 2 * len(missing) > len(required):
        text = f"looks like a patch, because {len(missing)} of {len(required)} required fields are missing"
        yield Problem(SPEC, f"{text}; the API server refuses it as an object", _REVIEW_OUTPUT)


def _missing_fields(change: Change) -> Iterator[Problem]:
    """The required fields that are missing, in one problem for each object that lacks them."""
    by_parent: dict[FieldPath, list[SchemaProblem]] = {}
    for found in _problems(change, "required"):
        by_parent.setdefault(FieldPath(found.path[:-1]), []).append(found)
    for parent, fields in by_parent.items():
        first, names = fields[0], ", ".join(str(each.path[-1]) for each in fields)
        if len(fields) == 1:
            yield Problem(first.path, first.message, first.remedy)
        else:
            text = f"{len(fields)} required fields are missing: {names}; the API server refuses the object without them"
            yield Problem(parent, text, f"{first.remedy}, and the others like it")


def _has_directive(value: Any) -> bool:
    """True if a value contains a directive of a strategic merge patch, such as `$patch: delete`."""
    if isinstance(value, dict):
        return any(str(key).startswith("$") or _has_directive(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_has_directive, value))


def _inside(found: SchemaProblem) -> str:
    return ".".join(str(step) for step in found.path[1:])


@OPERATOR.rule(
    "GA101",
    "Fields must have types and values that the CRD allows",
    remedy="write a value that the CRD allows",
    source="github.com/NVIDIA/gpu-operator config/crd/bases",
    rows=("J-11", "S-11", "S-13"),
)
def allowed_values(change: Change) -> Iterator[Problem]:
    """The API server refuses the object, but says only which values there are.

    Two mistakes are common enough to deserve better: `precompiled` and `runcompiled` are words of guides and no module
    types, and `on` or `off` without quotes is a boolean in YAML. Turn this rule off to see the API server's own words.

    An object without most of the fields that the CRD requires, or with directives of kustomize, is taken for a patch, and
    gets one finding for all of them.
    """
    yield from tuple(_as_patch(change)) or _missing_fields(change)
    for found in _problems(change, "type", "choice", "bound"):
        value = change.value(*found.path[1:])
        is_text = found.path[-1] == "kernelModuleType" and isinstance(value, str)
        remedy = _CHOICES.get(value) if is_text else None
        if isinstance(value, bool) and found.path[-1] == "defaultMode":
            remedy = f'write "{"on" if value else "off"}", in quotes; YAML reads it as {str(value).lower()} without'
        yield Problem(found.path, found.message, remedy or found.remedy)


@OPERATOR.rule(
    "GA102",
    "Fields must exist in the CRD",
    remedy="remove it",
    source="github.com/NVIDIA/gpu-operator config/crd/bases; structural schemas prune what they do not know",
    rows=("A-08", "D-08", "E-12", "K-15", "L-06", "S-35", "S-65"),
)
def known_fields(change: Change) -> Iterator[Problem]:
    """The API server drops a field that the CRD does not have, before any webhook sees it.

    `kubectl apply` says so; Helm, Argo CD and controllers do not, and the setting never takes effect. A field that looks
    like a mistyped one is refused, any other is warned about: the operator may be newer than this list (26.7).
    """
    for found in _problems(change, "unknown"):
        if str(found.path[-1]).startswith("$"):
            continue  # a directive of a patch
        elsewhere = _ELSEWHERE.get(_inside(found))
        mistyped = elsewhere is not None or found.remedy.startswith(("write ", "move "))
        severity = None if mistyped else Severity.WARN
        homes = [] if mistyped else [*_homes(SCHEMAS[change.kind], str(found.path[-1]), SPEC)]
        remedy = f"move it to {homes[0]}" if len(homes) == 1 else found.remedy
        yield Problem(found.path, found.message, elsewhere or remedy, severity=severity)


def _homes(schema: Field, name: str, path: FieldPath) -> Iterator[FieldPath]:
    """The paths of the mappings that have a field of a name, without those in lists."""
    for key, field in schema.fields.items():
        if key == name:
            yield path
        if field.type == "object":
            yield from _homes(field, name, path / key)


@OPERATOR.rule(
    "GA103",
    "Deprecated fields must not be used",
    default=Severity.WARN,
    remedy="remove it",
    source="github.com/NVIDIA/gpu-operator controllers/object_controls.go transformDriverContainer, applyLicensingConfig; "
    "internal/state/driver_volumes.go getDriverAdditionalConfigs; the other fields marked deprecated in "
    "api/nvidia/v1/clusterpolicy_types.go, which no function reads",
    rows=("F-03", "F-13", "I-17", "J-13", "C-13", "S-17", "S-60", "S-66"),
)
def current_fields(change: Change) -> Iterator[Problem]:
    """The field is still accepted but has no effect, or another field does the same better."""
    for found in _problems(change, "deprecated"):
        name = _inside(found)
        yield Problem(found.path, _STILL_READ if name in _LICENCES else found.message, _INSTEAD.get(name))


_STILL_READ = "is deprecated, and still read"
_LICENCES = ("driver.licensingConfig.configMapName", "licensingConfig.name")

_INSTEAD = {
    "driver.useOpenKernelModules": "write kernelModuleType: open in its place",
    "driver.licensingConfig.configMapName": "put the licence into a Secret and write secretName",
    "licensingConfig.name": "put the licence into a Secret and write secretName",
    "useOpenKernelModules": "write kernelModuleType: open in its place",
    "kataManager": "remove it; the operator deploys no kata-manager any more",
}


@CLUSTER_POLICY.rule(
    "GA109",
    "A field that was applied must not be dropped",
    remedy="remove it",
    source="kubernetes.io/docs/tasks/extend-kubernetes/custom-resources: fields that a CRD does not know are pruned",
    rows=("A-08",),
)
def unpruned_fields(change: Change) -> Iterator[Problem]:
    """The API server drops the field before webhooks see it; only kubectl's annotation keeps it.

    The setting never takes effect. A field that looks like a mistyped one is refused, any other is warned about: values
    of the Helm chart are the usual ones. A later edit that leaves the annotation as it is has no finding.
    """
    if lookup(change.object, APPLIED) == lookup(change.old, APPLIED):
        return
    for found in find_problems(SCHEMAS["ClusterPolicy"], applied_spec(change.object) or {}, SPEC):
        parent: Any = lookup(change.object, found.path[:-1])
        if found.kind == "unknown" and not (isinstance(parent, dict) and found.path[-1] in parent):
            text = "was applied and silently dropped by the API server, because there is no such field"
            severity = None if found.remedy.startswith(("write ", "move ")) else Severity.WARN
            yield Problem(found.path, text, found.remedy, severity=severity)


_VERSIONS = {
    "ClusterPolicy": "nvidia.com/v1",
    "NVIDIADriver": "nvidia.com/v1alpha1",
    "GPUCluster": "nvidia.com/v1alpha1",
    "ComputeDomain": "resource.nvidia.com/v1beta1",
    "ComputeDomainClique": "resource.nvidia.com/v1beta1",
}
"""Kinds of the GPU Operator and the DRA driver, and the version that serves each."""

ANY_KIND = RulesOn(*_VERSIONS)

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
        yield Problem(FieldPath(["kind"]), text, remedy)
    elif group in _GROUPS and change.kind not in _VERSIONS:
        if meant is None and group == _SHARED_GROUP and change.kind not in _NEVER_KINDS:
            return
        listed = ", ".join(sorted(kind for kind, version in _VERSIONS.items() if version.startswith("nvidia.com/")))
        remedy = (
            f"write apiVersion: {_VERSIONS[meant]} and kind: {meant}"
            if meant
            else f"remove the object; there are {listed}"
        )
        # A newer driver may have more kinds, so only what looks like one of these is a mistake.
        severity = None if meant or change.kind in _NEVER_KINDS else Severity.AUDIT
        yield Problem(FieldPath(["kind"]), f'"{change.kind}" is not a kind of {group}', remedy, severity=severity)
    elif group in _GROUPS and change.api_version != _VERSIONS[change.kind]:
        right = _VERSIONS[change.kind]
        path = FieldPath(["apiVersion"])
        yield Problem(path, f'"{change.api_version}" does not serve {change.kind}', f"write apiVersion: {right}")


@ANY_KIND.rule(
    "GA104",
    "The fields of an object must be indented below spec",
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
        yield Problem(FieldPath(["spec"]), text)
    elif stray:
        text = "stands beside spec, where the API server drops it"
        yield Problem(FieldPath([stray[0]]), text, "indent it below spec")
    for found in change.schema_problems:
        if found.kind == "null":
            yield Problem(found.path, found.message, found.remedy, severity=Severity.WARN)


SETTINGS = RulesOn("GPUAdmissionPolicy")
"""Rules on settings. `policies.admission` gives their findings default severities: settings cannot allow invalid ones."""


@SETTINGS.rule(
    "GA701",
    "Settings must be readable and consistent",
    remedy="put right what is named; docs/settings.md describes every setting",
    source="docs/settings.md",
    fixed=True,
)
def readable_settings(change: Change) -> Iterator[Problem]:
    """Settings with one mistake do not take effect at all: the ones before silently stay.

    So they cannot be stored, whatever severities and exemptions are set. Labels and annotations of what is stored
    already can be changed all the same, and it can be deleted.
    """
    try:
        parse_settings(change.object)
    except SettingsError as error:
        # What is stored may be invalid only since a newer version runs: who labels it has not written it.
        kept = change.old is not None and change.value_before() == change.object.get("spec")
        for each in error.problems:
            yield replace(each, severity=Severity.WARN) if kept else each


@SETTINGS.rule(
    "GA702",
    "Settings must name rules that exist and can be set",
    default=Severity.WARN,
    remedy=RULE_NAME_REMEDY,
    source="docs/settings.md",
    fixed=True,
)
def effective_rules(settings: GPUAdmissionPolicy, rules: RuleBook) -> Iterator[Problem]:
    """A severity for a rule that does not exist changes nothing, and neither does an exemption from one.

    It is no mistake for certain, because settings can be written before the version that knows the rule is installed.
    """
    return ineffective_names(settings, rules)


@SETTINGS.rule(
    "GA707",
    "A setting must have what it needs to take effect",
    default=Severity.WARN,
    remedy="remove it, or set what it needs",
    source="docs/settings.md",
    fixed=True,
)
def effective_settings(settings: GPUAdmissionPolicy, rules: RuleBook) -> Iterator[Problem]:
    """Some settings have no effect alone, and others override some.

    GA609 is found only beside another finding on the same pod. GA411 needs `placement.avoidSharedGPUs`. Of two entries for
    the same thing in the same namespaces the later one wins. An entry for the rule of a setting replaces the setting.
    """
    return idle_settings(settings, rules)
