"""The pod templates of a workload or of its runtime, and why some pods cannot be found in it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.kubernetes.neighbours import OBJECTS_WITH_QUEUED_PODS, QUEUE
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.view import UNKNOWN
from policies.kubernetes.workloads import (
    CLUSTER_RUNTIME,
    LLM_SERVICE,
    MODELS,
    RUNTIME,
    TRAIN_JOB,
    group_of,
    pod_templates,
    train_job_templates,
)
from policies.rules.settings.choices import workload_kinds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object
    from policies.kubernetes.pod_templates import PodTemplate
    from policies.kubernetes.view import ClusterView
    from policies.rules.settings import GPUAdmissionPolicy


class UnreadPods(NamedTuple):
    """Pods of a workload that no review sees before they are created."""

    path: FieldPath
    """The field that makes them."""
    reason: str
    """The reason why they cannot be found, as a clause."""


_QUEUE = FieldPath(["metadata", "labels", QUEUE])
_STEPS = "an Argo step is not a pod template, so its pods are reviewed only when the workflow controller creates them"
_RUNTIME_ONLY = "a training runtime makes no pods of its own; they are reviewed with each TrainJob that uses it"
_LATER = "they are reviewed when they are created"
_NIM = f"the NIM Operator makes its pods with spec.resources, and adds GPUs if that names none; {_LATER}"
_DYNAMO = f"the Dynamo operator makes its pods, with resources.limits.gpu as nvidia.com/gpu or as gpuType; {_LATER}"
_VLLM = f"vLLM's operator makes its pods, with resources.gpu as nvidia.com/gpu or as gpuType; {_LATER}"
_MERGED = f"it makes no pods of its own; KServe merges it into those of its services, and {_LATER}"
_COMPOSED = {
    ("apps.nvidia.com", "NIMPipeline"): _NIM,
    ("apps.nvidia.com", "NIMService"): _NIM,
    ("nvidia.com", "DynamoComponentDeployment"): _DYNAMO,
    ("nvidia.com", "DynamoGraphDeployment"): _DYNAMO,
    ("production-stack.vllm.ai", "VLLMRuntime"): _VLLM,
    ("serving.kserve.io", "ClusterServingRuntime"): _MERGED,
    ("serving.kserve.io", "LLMInferenceServiceConfig"): _MERGED,
    ("serving.kserve.io", "ServingRuntime"): _MERGED,
}
"""Kinds whose operators compose pods of their fields, and how.

Sources: NVIDIA/k8s-nim-operator internal/controller/platform/standalone/nimservice.go addGPUResources; ai-dynamo/dynamo
deploy/operator/internal/controller_common/resource.go GetResourcesConfig; vllm-project/production-stack
operator/internal/controller/resources.go buildResourceRequirements; kserve/kserve
pkg/controller/v1alpha2/llmisvc/config_merge.go combineBaseRefsConfig."""
_STEPS_PATHS = {
    ("argoproj.io", "ClusterWorkflowTemplate"): ("spec", "templates"),
    ("argoproj.io", "CronWorkflow"): ("spec", "workflowSpec", "templates"),
    ("argoproj.io", "Workflow"): ("spec", "templates"),
    ("argoproj.io", "WorkflowTemplate"): ("spec", "templates"),
}
"""Source: argo-workflows pkg/apis/workflow/v1alpha1/workflow_types.go: a template is a container, a script, a set of
containers, a resource or a list of other templates, with parameters that only the controller fills in."""


def templates_of(document: Object | None, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[PodTemplate, ...]:
    """The pod templates of an object, after the webhooks of others; none if it shows no pods."""
    if document is not None and _kind(document) == TRAIN_JOB:
        runtime = _runtime(document, view)
        return tuple(train_job_templates(document, runtime)) if runtime is not None else ()
    found = pod_templates(document, workload_kinds(settings))
    queue = lookup(document, _QUEUE)
    if not queue or not isinstance(queue, str) or _kind(document) not in OBJECTS_WITH_QUEUED_PODS:
        return found
    return tuple(_with_queue(template, queue) for template in found)


def _with_queue(template: PodTemplate, queue: str) -> PodTemplate:
    """The template with the queue of its object, which Kueue copies. It is composed: not written back."""
    metadata = template.template.get("metadata") or {}
    labels = lookup(metadata, ("labels",)) or {}
    if not isinstance(metadata, dict) or not isinstance(labels, dict) or labels.get(QUEUE) == queue:
        return template
    changed = {**template.template, "metadata": {**metadata, "labels": {**labels, QUEUE: queue}}}
    homes = ((tuple(_QUEUE), _QUEUE), *template.homes)
    return replace(template, template=changed, homes=homes, is_composed=True)


def unread_pods(document: Object | None, view: ClusterView, settings: GPUAdmissionPolicy) -> tuple[UnreadPods, ...]:
    """The pods of an object of a known kind that cannot be found in it; none for other kinds."""
    return tuple(_find_unread_pods(document, view, settings)) if document is not None else ()


def _find_unread_pods(document: Object, view: ClusterView, settings: GPUAdmissionPolicy) -> Iterator[UnreadPods]:
    kind = _kind(document)
    if kind in _STEPS_PATHS:
        yield UnreadPods(FieldPath(_STEPS_PATHS[kind]), _STEPS)
    elif kind in _COMPOSED:
        yield UnreadPods(FieldPath(["spec"]), _COMPOSED[kind])
    elif kind in (RUNTIME, CLUSTER_RUNTIME):
        yield UnreadPods(FieldPath(["spec", "template"]), _RUNTIME_ONLY)
    elif kind == TRAIN_JOB:
        yield from _unread_pods_of_train_job(document, view)
    elif kind == ("argoproj.io", "Rollout") and lookup(document, ("spec", "workloadRef")) is not None:
        named = " ".join(str(lookup(document, ("spec", "workloadRef", field))) for field in ("kind", "name"))
        yield UnreadPods(FieldPath(["spec", "workloadRef"]), f"its pods are those of {named}, and are reviewed with it")
    elif kind == ("serving.kserve.io", "InferenceService"):
        yield from _unread_pods_of_inference_service(document)
    elif kind == LLM_SERVICE:
        yield from _unread_pods_of_llm_service(document)
    elif kind[0] == "sparkoperator.k8s.io":
        yield from _unread_pods_of_spark(document, kind[1])
    elif (known := workload_kinds(settings).get(kind)) and not pod_templates(document, {kind: known}):
        yield UnreadPods(FieldPath(["spec"]), f"there is no pod template at {' or '.join(known.templates)}")


def _unread_pods_of_train_job(job: Object, view: ClusterView) -> Iterator[UnreadPods]:
    path = FieldPath(["spec", "runtimeRef"])
    if _runtime(job, view) is None:
        kind, name = _runtime_ref(job)
        yield UnreadPods(path, f"its pods are made from {kind} {name}, which is not known here")
        return
    for field in ("runtimePatches", "podTemplateOverrides", "podSpecOverrides"):
        if lookup(job, ("spec", field)):
            yield UnreadPods(FieldPath(["spec", field]), "its pods are reviewed without these changes")


def _unread_pods_of_inference_service(service: Object) -> Iterator[UnreadPods]:
    predictor = FieldPath(["spec", "predictor"])
    for name in MODELS:
        model = lookup(service, predictor / name)
        if isinstance(model, dict) and not isinstance(model.get("resources"), dict):
            yield UnreadPods(
                predictor / name,
                "its resources are those of a ServingRuntime, so its pods are reviewed when they are created",
            )


def _unread_pods_of_llm_service(service: Object) -> Iterator[UnreadPods]:
    if lookup(service, ("spec", "baseRefs")):
        reason = "its pods are reviewed without what these LLMInferenceServiceConfigs add"
        yield UnreadPods(FieldPath(["spec", "baseRefs"]), reason)
    if not pod_templates(service):
        reason = f"its containers are those of an LLMInferenceServiceConfig; {_LATER}"
        yield UnreadPods(FieldPath(["spec"]), reason)


def _unread_pods_of_spark(application: Object, kind: str) -> Iterator[UnreadPods]:
    base = ("spec", "template") if kind == "ScheduledSparkApplication" else ("spec",)
    for role in ("driver", "executor"):
        path = FieldPath((*base, role))
        value = lookup(application, path)
        if not isinstance(value, dict):
            continue
        if value.get("gpu") is not None:
            yield UnreadPods(path / "gpu", "Spark writes it into the pods, which are reviewed when they are created")
        elif not isinstance(value.get("template"), dict):
            yield UnreadPods(
                path, "it has no pod template; Spark makes the pods, which are reviewed when they are created"
            )


def _kind(document: Any) -> tuple[str, str]:
    kind = lookup(document, ("kind",))
    return group_of(document), kind if isinstance(kind, str) else ""


def _runtime_ref(job: Object) -> tuple[str, str]:
    kind, name = (lookup(job, ("spec", "runtimeRef", field)) for field in ("kind", "name"))
    return kind if isinstance(kind, str) else CLUSTER_RUNTIME[1], name if isinstance(name, str) else ""


def _runtime(job: Object, view: ClusterView) -> Object | None:
    """The runtime that a TrainJob names; None if it is not known."""
    kind, name = _runtime_ref(job)
    namespace = lookup(job, ("metadata", "namespace"))
    if kind == RUNTIME[1]:
        found = view.get(kind, name, namespace if isinstance(namespace, str) else "")
    elif kind == CLUSTER_RUNTIME[1]:
        found = view.get(kind, name)
    else:
        found = UNKNOWN
    return found if isinstance(found, dict) else None
