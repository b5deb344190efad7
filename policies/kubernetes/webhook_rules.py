"""Rules, selectors and matchConditions of webhooks and admission policies: the writes that they match."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from policies.kubernetes.objects import lookup, mappings_at

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.kubernetes.objects import Object


class UnknownOperatorError(ValueError):
    """A label selector has an operator that Kubernetes does not know; the text is the operator."""


class Write(NamedTuple):
    """One write, in the words of a rule."""

    operation: str
    group: str
    version: str
    """Empty for any version, as `matchPolicy: Equivalent` has it."""
    resource: str
    """The plural in lower case: `pods`."""
    subresource: str = ""
    is_namespaced: bool = True


def rule_matches(rule: Object, write: Write) -> bool:
    """True if a rule of a webhook or policy matches a write; `resourceNames` are not compared."""
    scope = rule.get("scope") or "*"
    wanted = {"operations": write.operation, "apiGroups": write.group}
    if write.version:
        wanted["apiVersions"] = write.version
    return (
        (scope == "*" or (scope == "Namespaced") == write.is_namespaced)
        and all({"*", value} & set(rule.get(field) or ()) for field, value in wanted.items())
        and any(_is_resource(written, write) for written in rule.get("resources") or ())
    )


def _is_resource(written: str, write: Write) -> bool:
    resource, _, part = written.partition("/")
    return resource in ("*", write.resource) and part in ("*", write.subresource)


def selects(selector: Any, labels: Mapping[str, str]) -> bool:
    """True if a LabelSelector object selects labels; an empty or missing one selects everything.

    Raises:
        UnknownOperatorError: It has an unknown operator.
    """
    exact = lookup(selector, ("matchLabels",)) or {}
    # The API server reads null as empty text.
    return all(labels.get(key) == (value or "") for key, value in exact.items()) and all(
        _meets(labels, expression) for expression in mappings_at(selector, ("matchExpressions",))
    )


def _meets(labels: Mapping[str, str], expression: Object) -> bool:
    key: str = expression.get("key") or ""
    operator: str = expression.get("operator") or ""
    values: list[str] = expression.get("values") or []
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    if operator in ("Exists", "DoesNotExist"):
        return (key in labels) == (operator == "Exists")
    raise UnknownOperatorError(operator)


_IS_LARGE = """\
(has(object.metadata.annotations) && size(object.metadata.annotations) > 5000) ||
(has(object.spec.volumes) && size(object.spec.volumes) > 5000) ||
[object.spec.containers,
has(object.spec.initContainers) ? object.spec.initContainers : [],
has(object.spec.ephemeralContainers) ? object.spec.ephemeralContainers : []].exists(list, size(list) > 50 || list.exists(c,
(has(c.env) && size(c.env) > 100) || (has(c.volumeMounts) && size(c.volumeMounts) > 100)))"""
"""A pod with so many entries that a search of all would exceed the 1,000,000 units that an expression may cost.

Source: PerCallLimit in k8s.io/apiserver pkg/apis/cel/config.go.
"""

SHOWS_GPU_ACCESS = f"""\
has(object.spec) && has(object.spec.containers) && (
{_IS_LARGE} ||
(has(object.spec.runtimeClassName) && object.spec.runtimeClassName != "") ||
(has(object.metadata.annotations) && object.metadata.annotations.exists(k,
k.startsWith("nvidia.cdi.k8s.io") || k.startsWith("cdi.k8s.io/"))) ||
(has(object.spec.volumes) && object.spec.volumes.exists(v, has(v.hostPath))) ||
[object.spec.containers,
has(object.spec.initContainers) ? object.spec.initContainers : [],
has(object.spec.ephemeralContainers) ? object.spec.ephemeralContainers : []].exists(list, list.exists(c,
(has(c.env) && c.env.exists(e, e.name == "NVIDIA_VISIBLE_DEVICES" || e.name == "CUDA_VERSION")) ||
(has(c.image) && c.image.contains("nvidia/")) ||
(has(c.volumeMounts) && c.volumeMounts.exists(m, m.mountPath.contains("nvidia-container-devices"))))))"""
"""A pod with a sign of GPU access without a request, or one that is too large to search for signs in CEL."""

TEMPLATE_CHANGED = """\
oldObject == null ||
(has(object.spec) && (!has(oldObject.spec) || object.spec != oldObject.spec)) ||
(has(object.template) && (!has(oldObject.template) || object.template != oldObject.template))"""
"""A workload that is created, or whose pods change."""

TEMPLATE_MENTIONS_GPUS = """\
!(request.kind.group in ["", "apps", "batch"]) ||
[has(object.template) ? object.template : {},
has(object.spec) && has(object.spec.template) ? object.spec.template : {},
has(object.spec) && has(object.spec.jobTemplate) && has(object.spec.jobTemplate.spec) &&
has(object.spec.jobTemplate.spec.template) ? object.spec.jobTemplate.spec.template : {}].exists(t,
has(t.spec) && has(t.spec.containers) && (
(has(t.metadata) && has(t.metadata.annotations) && t.metadata.annotations.exists(k,
(k.startsWith("gpu-admission.io/") && k != "gpu-admission.io/ignore") ||
k.startsWith("nvidia.cdi.k8s.io") || k.startsWith("cdi.k8s.io/"))) ||
(has(t.spec.resourceClaims) && size(t.spec.resourceClaims) > 0) ||
(has(t.spec.runtimeClassName) && t.spec.runtimeClassName != "") ||
(has(t.spec.volumes) && t.spec.volumes.exists(v, has(v.hostPath))) ||
[t.spec.containers, has(t.spec.initContainers) ? t.spec.initContainers : []].exists(list, list.exists(c,
(has(c.resources) && ((has(c.resources.limits) && c.resources.limits.exists(k, k.contains("/"))) ||
(has(c.resources.requests) && c.resources.requests.exists(k, k.contains("/"))))) ||
(has(c.env) && c.env.exists(e, e.name == "NVIDIA_VISIBLE_DEVICES" || e.name == "CUDA_VERSION")) ||
(has(c.image) && c.image.contains("nvidia/")) ||
(has(c.volumeMounts) && c.volumeMounts.exists(m, m.mountPath.contains("nvidia-container-devices")))))))"""
"""A workload of Kubernetes' own groups whose pods request devices or show a sign of GPU access."""

NOT_BY_CONTROLLERS = """\
!(request.userInfo.username in ["system:serviceaccount:kube-system:resource-claim-controller",
"system:kube-scheduler", "system:serviceaccount:gpu-admission:gpu-admission"])"""
"""False for the controllers that create claims for pods: such a claim was reviewed with its template."""

IS_CONFIGURATION = """\
request.kind.kind != "ConfigMap" || [object, oldObject].exists(o, o != null && (
o.metadata.namespace in ["gpu-operator", "nvidia-gpu-operator"] ||
(has(o.metadata.labels) && "gpu-admission.io/config" in o.metadata.labels)))"""
"""A ConfigMap of the operator's namespaces or with our label, or another kind."""

CONFIG_MAP_CHANGED = """\
request.kind.kind != "ConfigMap" || object == null || oldObject == null || object.?data != oldObject.?data ||
object.?binaryData != oldObject.?binaryData || object.metadata.?labels != oldObject.metadata.?labels"""
"""A ConfigMap whose data or labels change, or another kind."""

LIMITS_DEVICES = """\
!(request.kind.kind in ["LimitRange", "ResourceQuota"]) || (object.?spec != oldObject.?spec &&
(object.?spec.?hard.orValue({}).exists(k, k.contains("/")) ||
object.?spec.?limits.orValue([]).exists(l, ["max", "min", "default", "defaultRequest"].exists(field,
field in l && l[field].exists(k, k.contains("/"))))))"""
"""A ResourceQuota or LimitRange that changes and names a resource with a domain, or another kind."""

WATCHED_LABELS_CHANGED = """\
["nvidia.com/mig.config", "nvidia.com/device-plugin.config", "nvidia.com/gpu.workload.config",
"nvidia.com/gpu-operator.driver.owner", "nvidia.com/mig.config.state", "nvidia.com/vgpu.config.state"].exists(k,
object.metadata.?labels[?k] != oldObject.?metadata.?labels[?k])"""
"""A node whose watched labels change."""

CONVERSION_CHANGED = """\
["gpu-admission.io/dra", "gpu-admission.io/dra-strategy"].exists(k,
object.metadata.?labels[?k] != oldObject.?metadata.?labels[?k])"""
"""A namespace whose labels about conversion change."""
