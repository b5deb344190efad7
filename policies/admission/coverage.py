"""Findings of offline reviews only: objects that no rule looks at, and keys that are given twice."""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.admission.pods import reapplies_pod, updates_pod
from policies.admission.webhooks import CALLS, CLAIM_KINDS, WRITES
from policies.admission.workload_templates import templates_of, unread_pods
from policies.kubernetes.names import IGNORE, closest, printable, shown
from policies.kubernetes.neighbours import KINDS_OF_QUEUES, NEIGHBOURS
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.workloads import WORKLOADS, path_steps
from policies.nvidia.pod_conditions import CHANGES_GPU_ACCESS
from policies.rules.checks import EVERY, Problem
from policies.rules.decision import Severity
from policies.rules.settings.choices import workload_kinds
from policies.rules.settings.exemptions import NEVER_MATCHED

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.request import Request
    from policies.rules.settings import GPUAdmissionPolicy


_OUTCOME = "kubectl silently keeps only the last value"


@EVERY.rule(
    "GA710",
    "A mapping of a manifest must not have the same key twice",
    remedy="keep one line of the key",
    source="YAML 1.2.2, 3.2.1.1; sigs.k8s.io/yaml YAMLToJSON; go.yaml.in/yaml/v3 decode.go: mapping key already defined",
)
def unique_keys(duplicates: Mapping[FieldPath, Sequence[int]]) -> Iterator[Problem]:
    """YAML and JSON forbid it, and readers differ.

    kubectl and Helm silently send the last value and drop the others, while kustomize, and with it Argo CD and
    Flux, refuses the document. Only an offline review sees it, because the API server gets what kubectl made of it.
    """
    # Two objects in one document have one finding for all keys that they share.
    version, kind = FieldPath(["apiVersion"]), FieldPath(["kind"])
    if version in duplicates and kind in duplicates:
        second = duplicates[version][1]
        message = f"another object begins near line {second} without a line --- before it; {_OUTCOME} of each key"
        yield Problem(version, message, "write a line --- between the objects")
        duplicates = {path: lines for path, lines in duplicates.items() if len(path) > 1}
    for path, lines in duplicates.items():
        *before, last = lines
        others = ", ".join(map(str, before))
        message = (
            f"duplicate key {shown(path[-1])}: given at line{'s' * (len(before) > 1)} {others} and again at line {last}; "
            f"{_OUTCOME}"
        )
        yield Problem(FieldPath(path), message, f"keep one {shown(path[-1])}")


OFFLINE_KINDS = KINDS_OF_QUEUES | {("", "Namespace"), ("scheduling.k8s.io", "PriorityClass")}
"""Group and kind of objects whose configuration is reviewed only in files and by the audit: no webhook is called for it."""
_KINDS = {*CALLS, *OFFLINE_KINDS} - {*WORKLOADS}
"""Group and kind of the objects that rules look at, beside workloads."""
_GROUPS_WITHOUT_PODS = {
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "authorization.k8s.io",
    "autoscaling.openshift.io",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "dashboard.opendatahub.io",
    "discovery.k8s.io",
    "events.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "holodeck.nvidia.com",
    "image.openshift.io",
    "infrastructure.opendatahub.io",
    "k3d.io",
    "karpenter.sh",
    "kind.x-k8s.io",
    "kubescheduler.config.k8s.io",
    "machine.openshift.io",
    "monitoring.coreos.com",
    "monitoring.openshift.io",
    "networking.k8s.io",
    "node.k8s.io",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "svc.dpu.nvidia.com",
    *(group for each in NEIGHBOURS for group in each.groups_without_pods),
}
"""API groups whose objects neither make pods nor configure GPUs: RBAC, definitions of kinds, alerts, networks, disks,
clusters and nodes to create, services on DPUs, schedulers, profiles for users to choose, queues and their limits."""
_KINDS_WITHOUT_PODS = {
    ("", "Endpoints"),
    ("", "Event"),
    ("", "PersistentVolume"),
    ("", "PersistentVolumeClaim"),
    ("", "Secret"),
    ("", "Service"),
    ("", "ServiceAccount"),
    ("grove.io", "ClusterTopology"),
    ("grove.io", "ClusterTopologyBinding"),
    ("kai.scheduler", "Topology"),
    ("resource.nvidia.com", "ComputeDomainClique"),
}
_OF_CHART = "review what it installs: the output of `helm template`"
_OF_DRIVER = (
    "write what it says into the requests and configs of a claim; only drivers for Kubernetes before 1.31 read it"
)
_REMEDIES = {
    ("argoproj.io", "Application"): f"{_OF_CHART} or `kubectl kustomize`",
    ("argoproj.io", "ApplicationSet"): f"{_OF_CHART} or `kubectl kustomize`",
    ("gpu.resource.nvidia.com", "DeviceClassParameters"): _OF_DRIVER,
    ("gpu.resource.nvidia.com", "GpuClaimParameters"): _OF_DRIVER,
    ("gpu.resource.nvidia.com", "MigDeviceClaimParameters"): _OF_DRIVER,
    ("helm.cattle.io", "HelmChart"): _OF_CHART,
    ("helm.cattle.io", "HelmChartConfig"): _OF_CHART,
    ("helm.toolkit.fluxcd.io", "HelmRelease"): _OF_CHART,
    ("nfd.k8s-sigs.io", "NodeFeatureRule"): "review the Nodes that it labels",
    ("resource.k8s.io", "ResourceSlice"): "if the cluster has it, give it with --cluster",
    ("template.openshift.io", "Template"): "review what it creates: the output of `oc process --local -f`",
}
"""Remedies for kinds that are not reviewed and make no pods themselves."""
_NAME = re.compile(
    r"(?<![\w./@-])(?!(?:[\w-]+\.)*(?:dpu|net)\.nvidia\.com)(?:[\w-]+\.)*(?:nvidia\.com|gpu-admission\.io)/[A-Za-z]"
    r"|deviceclass\.resource\.kubernetes\.io/"
    r"|^(?!dpu\.|net\.)[\w-]+\.nvidia\.com$"
)
"""A name of NVIDIA's or of ours, or a DeviceClass; not an address such as https://docs.nvidia.com/, and no name of
NVIDIA's DPUs and network cards."""
_GPU = re.compile("gpu", re.IGNORECASE)
_MANIFEST = re.compile(r"^ *metadata:", re.MULTILINE)
"""In the text of an object."""
_AMOUNTS = {"hard", "limits", "requests", "resources"}
"""Fields whose keys name resources."""
_LAST = ("metadata", "kind", "apiVersion")
_SKIPPED = {
    "clusterPermissions",
    "permissions",
    "managedFields",
    "status",
    "kubectl.kubernetes.io/last-applied-configuration",
    "opendatahub.io/recommended-accelerators",
    IGNORE,
}
"""Fields that request no GPU: RBAC of operators, what controllers, the API server and kubectl add, what dashboards recommend,
and waivers."""
_CONDITIONS = ("affinity", "tolerations")
"""The ends of fields with conditions on nodes, such as CSI_PLUGIN_TOLERATIONS of Rook's ConfigMap."""


class Uncovered(NamedTuple):
    """The reason for which no rule looks at a request."""

    reason: str
    findings: tuple[Finding, ...] = ()
    """A finding at the first mention of GPUs in the object; empty if there is none."""


def reviewed_kinds(settings: GPUAdmissionPolicy) -> set[tuple[str, str]]:
    """Group and kind of all objects that rules look at."""
    return {*_KINDS, *workload_kinds(settings)}


def find_gap(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> Uncovered | None:
    """The reason for which no rule looks at a request, with a finding; None if a rule looks at it."""
    gap = _gap(request, view, settings)
    if gap is None:
        return None
    reason, remedy = gap
    return Uncovered(reason, tuple(reviewed_kind(request, view, settings, reason, remedy)) if remedy else ())


@EVERY.rule(
    "GA705",
    "An object that mentions GPUs must be of a kind and in a namespace that are reviewed",
    default=Severity.WARN,
    remedy="review what the object creates, such as its pods",
    source="docs/review.md",
)
def reviewed_kind(
    request: Request, view: ClusterView, settings: GPUAdmissionPolicy, reason: str, remedy: str
) -> Iterator[Problem]:
    """gpu-admission has rules for the kinds that its documentation lists.

    A cluster silently admits all other objects, even if they create pods with GPUs. An offline review points them
    out, and ends with exit code 4.
    """
    # Mentions in pods that are not reviewed come first.
    unread = (each.path for each in unread_pods(request.object, view, settings))
    inside = (found for path in unread for found in _mentions_at(path, lookup(request.object, path)))
    path = next(chain(inside, _mentions(request.object)), None)
    if path is not None:
        yield Problem(path, f"the object mentions GPUs, but was not reviewed: {reason}", remedy)


def _gap(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[str, str] | None:
    """The reason, and the remedy if GPUs are mentioned; the remedy is empty if mentions need no report."""
    kind = request.group, request.kind
    kinds = reviewed_kinds(settings)
    if kind in kinds and (why := _unreviewed_operation(request)):
        return why, ""
    if kind == ("", "ConfigMap"):
        from policies.configuration import is_configuration
        from policies.quota.queues import maps_device_classes

        if is_configuration(request, view, settings) or maps_device_classes(request.object or {}):
            return None
    if request.namespace in NEVER_MATCHED:
        remedy = "create the object in another namespace to have it reviewed"
        return f'no webhook is called for namespace "{request.namespace}"', remedy
    if kind == ("", "ConfigMap"):
        remedy = "if GPU software reads it, label it gpu-admission.io/config: device-plugin, mig-parted or dcgm-metrics"
        texts = (request.object or {}).get("data")
        if isinstance(texts, dict) and any(isinstance(each, str) and _MANIFEST.search(each) for each in texts.values()):
            remedy = "review the objects whose text it holds"
        return "it is not recognised as GPU configuration", remedy
    if kind in _KINDS:
        return None
    return _unread(request, view, settings) or (None if kind in kinds else _unknown_kind(request, kinds))


def _unread(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[str, str] | None:
    """The reason for which pods of a workload are not reviewed, and a remedy; None if none is needed."""
    has_templates = bool(templates_of(request.object, view, settings))
    for unread in unread_pods(request.object, view, settings):
        if not has_templates or any(_mentions_at(unread.path, lookup(request.object, unread.path))):
            return unread.reason, "review the pods that it makes"
    return None


def _unreviewed_operation(request: Request) -> str:
    """The reason for which the operation is not reviewed; empty if it is."""
    kind = request.group, request.kind
    operations = [call.operations for call in CALLS.get(kind, ()) if call.subresource == request.subresource]
    if not request.subresource and (kind in CLAIM_KINDS or kind not in CALLS):
        operations.append(WRITES)
    if not operations:
        return f"no rule is about the subresource {printable(request.subresource)} of this kind"
    if not any(request.operation in each for each in operations):
        return f"no rule is about the operation {request.operation} on this kind"
    is_guarded = CHANGES_GPU_ACCESS.holds(request.object, request.old_object)
    if updates_pod(request) and not (is_guarded or reapplies_pod(request)):
        return (
            "pods that exist are reviewed only if an image or an annotation for CDI changes, or if gpu-admission changed "
            "them and their spec changes"
        )
    return ""


def _unknown_kind(request: Request, kinds: set[tuple[str, str]]) -> tuple[str, str]:
    reason = "gpu-admission has no rules for this kind"
    if request.group in _GROUPS_WITHOUT_PODS or (request.group, request.kind) in _KINDS_WITHOUT_PODS:
        return reason, ""
    if remedy := _REMEDIES.get((request.group, request.kind)):
        return reason, remedy
    meant = closest(request.kind, [kind for group, kind in kinds if group == request.group])
    if meant and not _adds_a_word(request.kind, meant):
        return reason, f"write kind: {meant}, if that is meant"
    template = next((found for path in _mentions(request.object) if (found := _template_around(path))), "")
    if not template:
        return reason, "review the pods that it makes; it has no pod template that settings could name"
    return (
        reason,
        f"add the kind to workloads.kinds in the settings with templates: [{template}], or review the pods that it makes",
    )


def _template_around(path: FieldPath) -> str:
    """The path of the pod template around a field, as the settings write it; empty if there is none.

    Values of Helm charts also have `containers`, but by name instead of in a list.
    """
    index = path.index("containers") if "containers" in path else len(path)
    steps = path[:index] if isinstance(next(iter(path[index + 1 :]), None), int) else ()
    text = ""
    for step in steps[:-1] if len(steps) > 1 and steps[-1] == "spec" else steps:
        text += "[*]" if isinstance(step, int) else f".{step}"
    try:
        path_steps(text.removeprefix("."))
    except ValueError:
        return ""
    return f'"{text.removeprefix(".")}"' if "[" in text else text.removeprefix(".")


def _adds_a_word(one: str, other: str) -> bool:
    """True if one kind is the other with a word before or after it, such as LLMInferenceService."""
    shorter, longer = sorted((one, other), key=len)
    return shorter in longer and len(longer) - len(shorter) > 1


def _mentions(document: Any) -> Iterator[FieldPath]:
    """The mentions of GPUs in an object; those in its metadata and kind come last."""
    if isinstance(document, dict):
        ordered = sorted(document, key=lambda key: _LAST.index(key) if key in _LAST else -1)
        for key in ordered:
            yield from _mentions_at(FieldPath([key]), document[key])


def _mentions_at(path: FieldPath, value: Any) -> Iterator[FieldPath]:
    step = path[-1]
    if step in _SKIPPED or (isinstance(step, str) and step.lower().endswith(_CONDITIONS)):
        return
    if isinstance(step, str) and (_NAME.search(step) or (path[-2:-1] and path[-2] in _AMOUNTS and _GPU.search(step))):
        yield path
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _mentions_at(path / key, each)
    elif isinstance(value, list):
        for index, each in enumerate(value):
            yield from _mentions_at(path / index, each)
    elif isinstance(value, str) and _NAME.search(value):
        yield path
