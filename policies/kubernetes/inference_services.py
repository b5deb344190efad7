"""The pods of a KServe InferenceService: its components hold the fields of a pod spec among others.

Source: kserve pkg/apis/serving/v1beta1/predictor.go, component.go and podspec.go; `model`, or the name of a framework,
holds the fields of a container that KServe merges with a container of a ServingRuntime. An empty name is the runtime's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.pod_templates import PodCount, PodTemplate, pod_count, pod_template

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object

__all__ = ["MODELS", "service_templates"]

_COMPONENTS = (("predictor",), ("predictor", "workerSpec"), ("transformer",), ("explainer",))
MODELS = (
    *("model", "huggingface", "triton", "pytorch", "tensorflow", "onnx"),
    *("sklearn", "xgboost", "pmml", "lightgbm", "paddle"),
)
"""Fields of a predictor that hold a container."""
_CONTAINER = "kserve-container"


def service_templates(service: Object) -> Iterator[PodTemplate]:
    """The pod template of each component; a model without resources has none, because its ServingRuntime names them."""
    for component in _COMPONENTS:
        path = FieldPath(("spec", *component))
        value = lookup(service, path)
        if not isinstance(value, dict):
            continue
        count = _count(service, path)
        model = next((name for name in MODELS if isinstance(lookup(value, (name, "resources")), dict)), None)
        if model is not None:
            yield _with_model(path, value, model, count)
        elif isinstance(value.get("containers"), list) and value["containers"]:
            yield pod_template(service, path, value, count, labels_above=0)


def _count(service: Object, component: FieldPath) -> PodCount:
    """The replicas that a component always has; one is the head of the workers that share a model."""
    replicas = pod_count(service, FieldPath((*component[:2], "minReplicas")))
    if component[-1] != "workerSpec":
        return replicas
    parallel = pod_count(service, component / "pipelineParallelSize", 2)
    return PodCount(replicas.pods * max(parallel.pods - 1, 0), parallel.path)


def _with_model(path: FieldPath, component: Object, model: str, count: PodCount) -> PodTemplate:
    listed: Any = component.get("containers")
    others = listed if isinstance(listed, list) else []
    container = {**component[model], "name": component[model].get("name") or _CONTAINER}
    spec = {**component, "containers": [container, *others]}
    homes = (
        (("spec", "containers", 0), path / model),
        *((("spec", "containers", 1 + index), path / "containers" / index) for index in range(len(others))),
        (("spec",), path),
        (("metadata",), path),
    )
    marks = {mark: component[mark] for mark in ("labels", "annotations") if mark in component}
    return PodTemplate(path, {"metadata": marks, "spec": spec}, homes, count, is_composed=True)
