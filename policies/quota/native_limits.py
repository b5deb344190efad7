"""Rules on ResourceQuotas and LimitRanges: GPUs that nothing counts or that every container gets."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.devices.deviceclasses import class_remedy
from policies.devices.native_quotas import DEVICES_OF_CLASS, REQUESTS
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.known_classes import known_classes
from policies.kubernetes.names import shown
from policies.kubernetes.neighbours import HAMI
from policies.kubernetes.objects import FieldPath, items_at, lookup, mapping_at
from policies.kubernetes.pod_templates import container_defaults
from policies.kubernetes.quantities import billionths
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.mig import IMPLICIT_PREFIX, correct_name
from policies.rules.checks import Problem, RulesOn
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.rules.decision import Finding
    from policies.rules.request import Request


_HARD = FieldPath(["spec", "hard"])
_LIMITS = "limits."
_OTHER_DOMAIN = re.compile(r"(?:requests\.)?(.+)\.deviceclass\.resource\.kubernetes\.io/devices")
"""A limit of the devices of a class with the wrong domain, that of implicit resources; the group is the class."""


def validate(request: Request, view: ClusterView) -> Iterator[Finding]:
    """Findings on a ResourceQuota or LimitRange that is created, or whose spec changes."""
    document, old = request.object, request.old_object
    if request.operation == "DELETE" or request.subresource or not isinstance(document, dict):
        return
    if old is not None and lookup(old, ("spec",)) == lookup(document, ("spec",)):
        return
    yield from (uncounted_limits if request.kind == "ResourceQuota" else imposed_gpus)(document, view)


@RulesOn("ResourceQuota").rule(
    "GA509",
    "A ResourceQuota must name GPUs as Kubernetes counts them",
    default=Severity.WARN,
    remedy="write requests.nvidia.com/gpu",
    source="k8s.io/kubernetes pkg/quota/v1/evaluator/core/pods.go isExtendedResourceNameForQuota and resource_claims.go "
    "claimEvaluator.MatchingResources; Project-HAMi/HAMi pkg/device/quota.go managedQuotaName",
)
def uncounted_limits(quota: Object, view: ClusterView) -> Iterator[Problem]:
    """The API server stores any name, and counts few: a limit under another one limits nothing.

    Extended resources such as nvidia.com/gpu count as requests.nvidia.com/gpu only, and the devices of claims as
    <class>.deviceclass.resource.k8s.io/devices of a class that exists. The status of the quota shows no used amount for the
    other names.
    """
    hard = mapping_at(quota, _HARD)
    for key in hard:
        if key.endswith(DEVICES_OF_CLASS) or key.startswith(REQUESTS + IMPLICIT_PREFIX):
            yield from _missing_class(key, view)
        elif match := _OTHER_DOMAIN.fullmatch(key):
            yield Problem(
                _HARD / key, "Kubernetes counts nothing by this name", f'write "{match[1]}{DEVICES_OF_CLASS}"'
            )
        elif (resource := key.removeprefix(_LIMITS)) != key and _is_gpu(resource, view):
            resource = _correct_name(resource, view) or resource
            yield from _idle_limit(hard, key, resource, "Kubernetes counts no limits of extended resources")
        elif (resource := key.removeprefix(REQUESTS)) != key and (correct := _correct_name(resource, view)):
            text = "NVIDIA's device plugin advertises no resource of this name, so this limit counts nothing"
            yield Problem(_HARD / key, text, f'write "{REQUESTS}{correct}"')
        elif _is_gpu(key, view):
            resource = _correct_name(key, view) or key
            yield from _idle_limit(hard, key, resource, "Kubernetes counts extended resources by requests only")


def _missing_class(key: str, view: ClusterView) -> Iterator[Problem]:
    """The problem of a limit on a class that does not exist; none while classes are unknown."""
    classes = known_classes(view)
    name = key.removeprefix(REQUESTS + IMPLICIT_PREFIX).removesuffix(DEVICES_OF_CLASS)
    if not classes.are_listed or name in classes:
        return
    if key.startswith(REQUESTS + IMPLICIT_PREFIX):
        remedy = class_remedy(name, classes, before=REQUESTS + IMPLICIT_PREFIX)
    else:
        remedy = class_remedy(name.removeprefix(REQUESTS), classes, after=DEVICES_OF_CLASS)
    yield Problem(_HARD / key, f"there is no DeviceClass {shown(name)}, so this limit counts no device", remedy)


def _idle_limit(hard: Mapping[str, Any], key: str, resource: str, reason: str) -> Iterator[Problem]:
    """The problem of a limit that counts nothing.

    An audit finding only, if the quota has a limit by requests that is as low.

    Args:
        hard: The limits of the quota.
        key: The name of this limit.
        resource: The resource that it is about.
        reason: The start of the message.
    """
    counted = f"{REQUESTS}{resource}"
    if counted in hard and billionths(hard[counted]) <= billionths(hard[key]):
        text = f"{reason}, so this limit adds nothing to {counted}"
        yield Problem(_HARD / key, text, "remove it", severity=Severity.AUDIT)
        return
    yield Problem(_HARD / key, f"{reason}, so this limit counts nothing", f'write "{counted}"')


def _correct_name(resource: str, view: ClusterView) -> str | None:
    """NVIDIA's name for a misspelt resource; None for names that something offers."""
    nodes = gpu_nodes(view)
    offered = () if nodes is UNKNOWN else nodes.extended_resources
    if resource in HAMI.resources or resource in offered or resource in known_classes(view).extended_resources:
        return None
    return correct_name(resource)


def _is_gpu(resource: str, view: ClusterView) -> bool:
    """True if an extended resource stands for GPUs: one of NVIDIA's, or one of a DeviceClass.

    False for HAMi's parts of GPUs, whose limits its own scheduler reads from ResourceQuotas.
    """
    if resource in HAMI.resources:
        return False
    return resource.startswith((VENDOR_PREFIX, IMPLICIT_PREFIX)) or resource in known_classes(view).extended_resources


@RulesOn("LimitRange").rule(
    "GA510",
    "A LimitRange must leave GPUs to the pods that request them",
    default=Severity.WARN,
    remedy="remove the GPUs from the LimitRange, and limit them by a ResourceQuota or a GPUQuota",
    source="k8s.io/kubernetes pkg/apis/core/v1/defaults.go SetDefaults_LimitRangeItem; "
    "plugin/pkg/admission/limitranger/admission.go maxConstraint, minConstraint; pkg/apis/core/validation/validation.go "
    "validateContainerResourceName",
)
def imposed_gpus(limit_range: Object, view: ClusterView) -> Iterator[Problem]:
    """A LimitRange is about every container of its namespace, also those without GPUs.

    A default gives each of them GPUs, and a maximum of containers without a default is a default too. A minimum, and a
    maximum of pods, refuse everything that requests none. Claims are not limited.
    """
    defaults, _ = container_defaults([limit_range])
    for index, item in enumerate(items_at(limit_range, ("spec", "limits"))):
        kind = lookup(item, ("type",))
        for field in ("default", "max", "min", "defaultRequest"):
            path = FieldPath(["spec", "limits", index, field])
            for name, amount in mapping_at(item, (field,)).items():
                resource = name.removeprefix(REQUESTS).removeprefix(_LIMITS)
                if not _is_gpu(resource, view):
                    continue
                if name.startswith(REQUESTS):
                    text = "the API server refuses it: doesn't follow extended resource name standard"
                    yield Problem(path / name, text, f'write "{resource}"')
                elif resource != name:
                    text = (
                        "no node offers a resource of this name, so a container that gets it by default is never placed"
                    )
                    yield Problem(path / name, text, f'write "{resource}"')
                elif billionths(amount) > 0:
                    yield from _imposed_amount(path / name, kind, name, item, defaults)


def _imposed_amount(
    path: FieldPath, kind: object, name: str, item: Object, defaults: Mapping[str, Any]
) -> Iterator[Problem]:
    """The problem of an amount that a LimitRange gives to, or demands of, what requests no GPUs.

    Args:
        path: The resource in a field of the item.
        kind: The type of the item.
        name: The resource.
        item: The item.
        defaults: The limits that containers get by default.
    """
    field, amount = path[-2], lookup(item, path[-2:])
    given = f"every container that names no {name} gets {amount}"
    match kind, field:
        case "Container", "default":
            yield Problem(path, given, "write 0, and let pods request their GPUs")
        case "Container", "max" if name not in mapping_at(item, ("default",)):
            text = f"{given}, because a maximum is the default too"
            yield Problem(path, text, f'add default: {{"{name}": 0}} to this item')
        case "Container", "defaultRequest" if name not in defaults:
            yield Problem(path, f"every container that names no {name} is refused: it gets a request without a limit")
        case "Container" | "Pod", "min":
            yield Problem(path, f"every {kind.lower()} with less than {amount} {name} is refused, also without GPUs")
        case "Pod", "max" if name not in defaults:
            yield Problem(path, f"every pod that names no {name} is refused: a maximum of pods requires a limit")
