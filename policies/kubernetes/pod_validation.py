"""The fields of a pod around its devices, as the API server checks them.

Only manifests need this: a webhook sees an object after the API server has read it. Everything else of a pod is left to
tools that know all schemas.

Source: k8s.io/kubernetes pkg/apis/core/validation/validation.go, whose functions are named below. Unknown fields are refused
by kubectl, which requests strict field validation, and by server-side apply; other clients lose them silently.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.kubernetes.names import (
    closest,
    format_list,
    is_dns_label,
    is_dns_subdomain,
    is_label_key,
    is_label_value,
    quote,
    shown,
    write_field,
)
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.selectors import NodeRequirement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from policies.kubernetes.objects import Object


class FieldProblem(NamedTuple):
    """A field that an API server refuses, or that kubectl refuses to send."""

    path: FieldPath
    message: str
    """The rest of a sentence that begins with the path; without a full stop."""
    remedy: str
    """An imperative."""


_POD_FIELDS = (
    "activeDeadlineSeconds affinity automountServiceAccountToken containers dnsConfig dnsPolicy enableServiceLinks"
    " ephemeralContainers hostAliases hostIPC hostNetwork hostPID hostUsers hostname hostnameOverride imagePullSecrets"
    " initContainers nodeName nodeSelector os overhead preemptionPolicy priority priorityClassName readinessGates"
    " resourceClaims resources restartPolicy runtimeClassName schedulerName schedulingGates schedulingGroup"
    " securityContext serviceAccount serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain"
    " terminationGracePeriodSeconds tolerations topologySpreadConstraints volumes workloadRef"
)
_CONTAINER_FIELDS = (
    "args command env envFrom image imagePullPolicy lifecycle livenessProbe name ports readinessProbe resizePolicy"
    " resources restartPolicy restartPolicyRules securityContext startupProbe stdin stdinOnce terminationMessagePath"
    " terminationMessagePolicy tty volumeDevices volumeMounts workingDir"
)
"""The fields of Kubernetes 1.36, divided by spaces. Source: k8s.io/api/core/v1/types.go."""
_DEVICE_FIELDS = ("resourceClaims", "resources", "runtimeClassName", "tolerations", "nodeSelector", "affinity")
_RESOURCES = ("limits", "requests", "claims")
_AFFINITY = ("nodeAffinity", "podAffinity", "podAntiAffinity")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_POD_LEVEL = re.compile(r"cpu|memory|hugepages-.*")
_LIKE_GPU = re.compile(r"gpu|mig-|nvidia|cuda", re.IGNORECASE)
_GPU_NAMES = ("gpu", "gpus", "nvidia-gpu", "nvidia.com")
_NVIDIA_NAMES = re.compile(r"gpu\.shared|mig-[1-7]g\.[0-9]{1,3}gb[a-z.+]*")
_MOST_COMPARED = 64
"""The number of claims of a pod among which a misspelt name is looked for."""
_UNKNOWN = "unknown field, which kubectl refuses and other clients drop"


def refused_fields(pod: Object) -> Iterator[FieldProblem]:
    """The fields around devices with which an API server does not store a pod.

    Values of a wrong type are passed over: `policies.kubernetes.pods.Pod.read` reports them.
    """
    path, spec = FieldPath(["spec"]), pod.get("spec")
    if not isinstance(spec, dict):
        return
    for key in _unknown_keys(spec, _POD_FIELDS.split()):
        if key in _RESOURCES:
            yield FieldProblem(path / key, _UNKNOWN, f"move it into resources.{key} of the container that uses it")
        elif closest(key, _DEVICE_FIELDS):
            yield FieldProblem(path / key, _UNKNOWN, write_field(key, _DEVICE_FIELDS, spec, ""))
    yield from _pod_resource_problems(path / "resources", spec.get("resources"))
    yield from _pod_claim_problems(path / "resourceClaims", spec.get("resourceClaims"))
    claims = [claim for claim in _list(spec.get("resourceClaims")) if isinstance(claim, dict)]
    # A dictionary keeps their order for messages.
    names = {name: None for claim in claims if isinstance(name := claim.get("name"), str)}
    for section in ("initContainers", "containers"):
        for index, container in enumerate(_list(spec.get(section))):
            if isinstance(container, dict):
                yield from _container_problems(path / section / index, container, names)
    for index, toleration in enumerate(_list(spec.get("tolerations"))):
        if isinstance(toleration, dict):
            yield from _toleration_problems(path / "tolerations" / index, toleration)
    selector = spec.get("nodeSelector")
    for key, value in (selector if isinstance(selector, dict) else {}).items():
        yield from _label_problems(path / "nodeSelector" / key, key, value)
    yield from _affinity_problems(path / "affinity", spec.get("affinity"))


def _unknown_keys(fields: Mapping[Any, Any], known: Collection[str]) -> Iterator[str]:
    return (key for key, value in fields.items() if isinstance(key, str) and key not in known and value is not None)


def _unknown_fields(path: FieldPath, fields: Mapping[Any, Any], known: Collection[str]) -> Iterator[FieldProblem]:
    """The problems of fields that do not exist, of an object that is only about devices."""
    for key in _unknown_keys(fields, known):
        yield FieldProblem(path / key, _UNKNOWN, write_field(key, known, fields, f"write {format_list([*known])}"))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _pod_resource_problems(path: FieldPath, resources: Any) -> Iterator[FieldProblem]:
    """The problems of resources for a whole pod.

    Source: validatePodResources, validatePodResourceName.
    """
    if not isinstance(resources, dict):
        return
    yield from _unknown_fields(path, resources, _RESOURCES)
    if resources.get("claims") is not None:
        message = "must not be set for a whole pod"
        yield FieldProblem(
            path / "claims", message, "move it into resources.claims of the container that uses the device"
        )
    for section in ("limits", "requests"):
        amounts = resources.get(section)
        for name in amounts if isinstance(amounts, dict) else ():
            if isinstance(name, str) and not _POD_LEVEL.fullmatch(name):
                message = "must not be set for a whole pod, only cpu, memory and hugepages"
                remedy = "move it into resources.limits of the container that uses it"
                yield FieldProblem(path / section / name, message, remedy)


def _pod_claim_problems(path: FieldPath, claims: Any) -> Iterator[FieldProblem]:
    """The problems of the claims that a pod declares.

    Source: validatePodResourceClaim.
    """
    seen = set[str]()
    for index, claim in enumerate(_list(claims)):
        if not isinstance(claim, dict):
            continue
        place, name = path / index, claim.get("name")
        if isinstance(source := claim.get("source"), dict) and source:
            message = "has no effect since Kubernetes 1.31"
            yield FieldProblem(place / "source", message, f"write {format_list([*source])} beside name, without source")
        fields = ("name", "resourceClaimName", "resourceClaimTemplateName", "source")
        yield from _unknown_fields(place, claim, fields)
        if not name:
            yield FieldProblem(place / "name", "is missing", "give the claim a name that containers refer to")
        elif isinstance(name, str):
            if name in seen:
                yield FieldProblem(place / "name", f"{shown(name)} names another claim already", "give it another name")
            elif not is_dns_label(name):
                yield FieldProblem(place / "name", f"{shown(name)} is no DNS label", "use a-z, 0-9 and - only")
            seen.add(name)
        sources = [
            field for field in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(field) is not None
        ]
        for field in sources:
            if isinstance(source := claim[field], str) and not is_dns_subdomain(source):
                message = f"{shown(source)} can name no object" if source else "is empty"
                yield FieldProblem(place / field, message, "write the name that `kubectl get` shows")
        if len(sources) > 1:
            message = "has both resourceClaimName and resourceClaimTemplateName"
            yield FieldProblem(place, message, "remove resourceClaimName or resourceClaimTemplateName")
        elif not sources and not claim.get("source"):
            remedy = "write resourceClaimTemplateName, or resourceClaimName"
            yield FieldProblem(place, "does not say where the claim comes from", remedy)


def _container_problems(
    path: FieldPath, container: Mapping[str, Any], claims: Collection[str]
) -> Iterator[FieldProblem]:
    """The problems of the resources of a container, whose pod declares these claims.

    Source: validateResourceRequirements, validateContainerResourceName.
    """
    for key in _unknown_keys(container, _CONTAINER_FIELDS.split()):
        if key in _RESOURCES:
            yield FieldProblem(path / key, _UNKNOWN, f"move it into resources: {{{key}: ...}}")
        elif closest(key, ["resources"]):
            yield FieldProblem(path / key, _UNKNOWN, 'write "resources"')
    resources = container.get("resources")
    if not isinstance(resources, dict):
        return
    path = path / "resources"
    for key in _unknown_keys(resources, _RESOURCES):
        if "/" in key:
            yield FieldProblem(path / key, _UNKNOWN, f"move it into limits: {{{key}: ...}}")
        else:
            yield from _unknown_fields(path, {key: resources[key]}, _RESOURCES)
    limits, requests = resources.get("limits"), resources.get("requests")
    amounts = dict.fromkeys(requests, "requests") if isinstance(requests, dict) else {}
    # Requests that are missing are filled in from the limits.
    amounts |= dict.fromkeys(limits, "limits") if isinstance(limits, dict) else {}
    for name, section in amounts.items():
        if name == "claims":
            yield FieldProblem(path / section / name, "is no resource", "move it beside limits: resources.claims")
        elif isinstance(name, str) and _LIKE_GPU.search(name) and not ("/" in name and is_label_key(name)):
            domain, _, device = name.lower().rpartition("/")
            if domain in ("", "nvidia.com") and (device in _GPU_NAMES or _NVIDIA_NAMES.fullmatch(device)):
                remedy = f'write "nvidia.com/{"gpu" if device in _GPU_NAMES else device.replace("+", ".")}"'
            else:
                remedy = "write it as nodes have it in status.allocatable, such as nvidia.com/gpu"
            message = "is no resource that Kubernetes knows: names of devices have a domain, a slash and one name"
            yield FieldProblem(path / section / name, message, remedy)
    yield from _container_claim_problems(path / "claims", resources.get("claims"), claims)


def _container_claim_problems(path: FieldPath, items: Any, claims: Collection[str]) -> Iterator[FieldProblem]:
    """The problems of the claims of a container, whose pod declares others or the same.

    Source: validateResourceClaimNames.
    """
    seen: dict[str, set[str]] = {}
    for index, item in enumerate(_list(items)):
        if not isinstance(item, dict):
            continue
        place, name, request = path / index, item.get("name"), item.get("request") or ""
        yield from _unknown_fields(place, item, ("name", "request"))
        if not isinstance(name, str) or not name:
            yield FieldProblem(place / "name", "is missing", "name a claim of spec.resourceClaims")
            continue
        if not isinstance(request, str):
            continue
        if request and not is_dns_label(request):
            remedy = f"write {quote(request.partition('/')[0])}, the request without its alternative"
            yield FieldProblem(place / "request", f"{shown(request)} is no DNS label", remedy)
        others = seen.setdefault(name, set())
        if others and (not request or not others.isdisjoint(("", request))):
            yield FieldProblem(place, f"the container has claim {shown(name)} already", "remove one of the two entries")
        others.add(request)
        if name not in claims:
            guess = closest(name, islice(claims, _MOST_COMPARED))
            message = f"claim {shown(name)} is not in spec.resourceClaims"
            message += f", which has {format_list([*claims])}" if claims else ", which is empty"
            remedy = f"add an entry with name: {name} there, with its resourceClaimTemplateName"
            yield FieldProblem(place / "name", message, f'write "{guess}"' if guess else remedy)


def _toleration_problems(path: FieldPath, toleration: Mapping[str, Any]) -> Iterator[FieldProblem]:
    """The problems of a toleration; operators Gt and Lt, which need a feature gate, are not checked.

    Source: ValidateTolerations.
    """
    yield from _unknown_fields(path, toleration, ("key", "operator", "value", "effect", "tolerationSeconds"))
    key, operator = toleration.get("key") or "", toleration.get("operator") or "Equal"
    value, effect = toleration.get("value") or "", toleration.get("effect") or ""
    if operator not in ("Exists", "Equal", "Gt", "Lt"):
        guess = closest(operator, ("Exists", "Equal")) or "Exists"
        yield FieldProblem(path / "operator", f"is {shown(operator)}", f'write "{guess}"')
    elif operator == "Exists" and value:
        message = "must be empty with operator Exists"
        yield FieldProblem(path / "value", message, "remove it, or write operator: Equal")
    elif not key and operator != "Exists":
        message = "must be Exists in a toleration without a key"
        yield FieldProblem(path / "operator", message, 'name the key of the taint, or write operator: "Exists"')
    if key and not is_label_key(key):
        yield FieldProblem(
            path / "key", f"{shown(key)} is no key of a taint", "write the key alone, without value or effect"
        )
    if effect and effect not in _EFFECTS:
        yield FieldProblem(
            path / "effect", f"is {shown(effect)}", f'write "{closest(effect, _EFFECTS) or _EFFECTS[0]}"'
        )
    elif toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        message = "may be set only with effect: NoExecute"
        yield FieldProblem(path / "tolerationSeconds", message, "remove it")


def _label_problems(path: FieldPath, key: Any, value: Any) -> Iterator[FieldProblem]:
    if isinstance(key, str) and not is_label_key(key):
        yield FieldProblem(
            path, f"{shown(key)} is no key of a label", "write it as `kubectl get nodes --show-labels` does"
        )
    if isinstance(value, str) and not is_label_value(value):
        message = f"{shown(value)} can be no value of a label: those have at most 63 letters, digits, -, _ and ."
        yield FieldProblem(path, message, "write it as `kubectl get nodes --show-labels` does")


def _affinity_problems(path: FieldPath, affinity: Any) -> Iterator[FieldProblem]:
    """The problems of affinity to nodes; affinity between pods is not checked.

    Source: validateNodeAffinity, ValidateNodeSelectorRequirement.
    """
    if not isinstance(affinity, dict):
        return
    yield from _unknown_fields(path, affinity, _AFFINITY)
    path, affinity = path / "nodeAffinity", affinity.get("nodeAffinity")
    if not isinstance(affinity, dict):
        return
    yield from _unknown_fields(path, affinity, (_REQUIRED, _PREFERRED))
    if isinstance(required := affinity.get(_REQUIRED), dict):
        place = path / _REQUIRED
        yield from _unknown_fields(place, required, ("nodeSelectorTerms",))
        terms = required.get("nodeSelectorTerms")
        if not terms:
            yield FieldProblem(place / "nodeSelectorTerms", "is empty", "add a term, or remove the affinity")
        for index, term in enumerate(_list(terms)):
            yield from _term_problems(place / "nodeSelectorTerms" / index, term)
    for index, preferred in enumerate(_list(affinity.get(_PREFERRED))):
        if isinstance(preferred, dict):
            place = path / _PREFERRED / index
            yield from _unknown_fields(place, preferred, ("weight", "preference"))
            yield from _term_problems(place / "preference", preferred.get("preference"))


def _term_problems(path: FieldPath, term: Any) -> Iterator[FieldProblem]:
    if not isinstance(term, dict):
        return
    yield from _unknown_fields(path, term, ("matchExpressions", "matchFields"))
    for index, expression in enumerate(_list(term.get("matchExpressions"))):
        if not isinstance(expression, dict):
            continue
        place = path / "matchExpressions" / index
        yield from _unknown_fields(place, expression, ("key", "operator", "values"))
        key, operator, values = expression.get("key"), expression.get("operator"), _list(expression.get("values"))
        if operator not in _OPERATORS:
            guess = closest(operator, _OPERATORS) or "In"
            yield FieldProblem(place / "operator", f"is {shown(operator)}", f'write "{guess}"')
        elif operator in ("In", "NotIn") and not values:
            yield FieldProblem(place / "values", f"is empty, and {operator} needs a value", "add the values")
        elif operator in ("Exists", "DoesNotExist") and values:
            yield FieldProblem(place / "values", f"must be empty with {operator}", "remove them, or write operator: In")
        elif operator in ("Gt", "Lt") and len(values) != 1:
            yield FieldProblem(place / "values", f"must have one value with {operator}", "write one value")
        if isinstance(key, str) and not is_label_key(key):
            message = f"{shown(key)} is no key of a label"
            yield FieldProblem(place / "key", message, "write it as `kubectl get nodes --show-labels` does")


def _contradicts(expression: Any, labels: Mapping[str, Any]) -> bool:
    """True if an expression of a label selector is well-formed, and labels do not meet it."""
    parts = expression if isinstance(expression, dict) else {}
    operator, values = parts.get("operator"), _list(parts.get("values"))
    if operator not in ("In", "NotIn", "Exists", "DoesNotExist") or not all(
        isinstance(each, str) for each in (parts.get("key"), *values)
    ):
        return False
    requirement = NodeRequirement.read({**parts, "values": values})
    return requirement is not None and not requirement.holds(labels)


_ALWAYS_RESTARTED = frozenset({("apps", kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")})


def refused_workload_fields(
    group: str, kind: str, workload: Object, restart: Any, labels: Any
) -> Iterator[FieldProblem]:
    """The selector and the restart policy with which an API server does not store a workload.

    Args:
        group: Its API group.
        kind: Its kind; others than those of apps and batch are passed over.
        workload: The workload.
        restart: The restart policy of its pod template as the API server defaults it.
        labels: The labels of its pod template.

    Source: pkg/apis/apps/validation/validation.go ValidatePodTemplateSpecForReplicaSet, pkg/apis/batch/validation/validation.go
    ValidateJobSpec.
    """
    template = FieldPath(["spec", "template", "spec", "restartPolicy"])
    if (group, kind) in _ALWAYS_RESTARTED:
        selector = workload.get("spec", {}).get("selector")
        wanted = selector.get("matchLabels") if isinstance(selector, dict) else None
        path = FieldPath(["spec", "selector"])
        if not selector:
            remedy = "write selector: {matchLabels: ...} with labels of the pod template"
            yield FieldProblem(path, f"is missing; a {kind} finds its pods by it", remedy)
        elif isinstance(selector, dict) and not wanted and not selector.get("matchExpressions"):
            others = [*_unknown_keys(selector, ("matchLabels", "matchExpressions"))]
            remedy = f"write {format_list(others)} below matchLabels" if others else "add labels of the pod template"
            if guess := next(filter(None, (closest(each, ["matchLabels"]) for each in others)), None):
                remedy = f'write "{guess}"'
            yield FieldProblem(path, f"selects no label; a {kind} finds its pods by it", remedy)
        elif isinstance(selector, dict):
            have = labels if isinstance(labels, dict) else {}
            for key, written in (wanted if isinstance(wanted, dict) else {}).items():
                # The API server reads null as empty text, here and in labels.
                value, label = ("" if each is None else each for each in (written, have.get(key)))
                if key not in have or label != value:
                    pair = f"{key}: {quote(value) if value == '' else value}"
                    message = (
                        f"selects {pair}, and the pod template has {quote(label) if key in have else 'no such label'}"
                    )
                    remedy = f"write {pair} in the labels of the template"
                    yield FieldProblem(path / "matchLabels" / key, message, remedy)
            for index, expression in enumerate(_list(selector.get("matchExpressions"))):
                if _contradicts(expression, have):
                    place = path / "matchExpressions" / index
                    remedy = "write a condition that the labels meet, or change the labels"
                    yield FieldProblem(place, "does not match the labels of the pod template", remedy)
        if restart not in (None, "", "Always"):
            yield FieldProblem(
                template, f"is {shown(restart)}; pods of a {kind} start again always", "remove it, or use a Job"
            )
    elif group == "batch" and kind in ("Job", "CronJob") and restart not in ("Never", "OnFailure"):
        if kind == "CronJob":
            template = FieldPath(["spec", "jobTemplate", *template])
        yield FieldProblem(
            template, f"is {shown(restart or 'Always')}, the default; a Job ends", 'write "Never" or "OnFailure"'
        )
