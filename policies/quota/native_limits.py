"""Limits of GPUQuotas as ResourceQuotas have them, and rules on ResourceQuotas and LimitRanges."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from fractions import Fraction
from math import floor
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.devices.deviceclasses import class_remedy, extended_resource_name
from policies.devices.native_quotas import DEVICES_OF_CLASS, REQUESTS, scopes_of
from policies.devices.published_devices import gpu_groups
from policies.fleet.gpu_nodes import gpu_nodes
from policies.fleet.known_classes import known_classes
from policies.kubernetes.names import format_list, shown
from policies.kubernetes.neighbours import HAMI
from policies.kubernetes.objects import FieldPath, items_at, lookup, mapping_at, name_of
from policies.kubernetes.pod_templates import container_defaults
from policies.kubernetes.pods import Pod
from policies.kubernetes.quantities import ONE, billionths
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN, Unknown
from policies.nvidia.identifiers import VENDOR_PREFIX
from policies.nvidia.mig import IMPLICIT_PREFIX, correct_name
from policies.quota.demands.bills import UnknownMemory, UnknownProduct, bill
from policies.quota.demands.claims import demands_of_claim
from policies.quota.demands.classes import classes
from policies.quota.demands.device_kinds import node_kinds
from policies.quota.demands.pods import demands_of_pod
from policies.quota.limits.amounts import amount_text
from policies.quota.limits.quota import QUOTA_NAME, Quota, QuotaError, parse_quota, quota_shown
from policies.rules.charges import OWN, DeviceDemand
from policies.rules.checks import Problem, RulesOn
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.quota.limits.quota import Limit
    from policies.rules.charges import DeviceKind
    from policies.rules.decision import Finding
    from policies.rules.request import Request
    from policies.rules.settings.choices import Quotas


@dataclass(frozen=True, slots=True)
class NativeLimit:
    """A limit of a GPUQuota that a ResourceQuota expresses exactly."""

    limit: Limit
    key: str
    """Its name in `spec.hard`."""
    hard: int
    scope: Object | None = None
    """An entry of `spec.scopeSelector.matchExpressions`; None if it counts pods of every PriorityClass."""

    @property
    def counts_claims(self) -> bool:
        """True if it counts claims by their DeviceClass, so pods are admitted before their claims are counted."""
        return self.key.endswith(DEVICES_OF_CLASS)


class NativeForm(NamedTuple):
    """The limits of a GPUQuota as Kubernetes' own quota expresses them, and the others."""

    limits: tuple[NativeLimit, ...]
    lost: tuple[tuple[Limit, str], ...]
    """The limits that it cannot express, each with the reason, a clause."""

    def resource_quotas(self, namespace: str) -> Iterator[tuple[Object, tuple[NativeLimit, ...]]]:
        """The ResourceQuotas, one for each scope, with their limits.

        Of several limits for one name the least counts.
        """
        by_scope: dict[str, list[NativeLimit]] = {}
        for each in self.limits:
            by_scope.setdefault(str(each.scope), []).append(each)
        for limits in by_scope.values():
            scope, hard = limits[0].scope, dict[str, int]()
            for each in limits:
                hard[each.key] = min(each.hard, hard.get(each.key, each.hard))
            selector = {} if scope is None else {"scopeSelector": {"matchExpressions": [scope]}}
            name = QUOTA_NAME if scope is None else f"{QUOTA_NAME}-{limits[0].limit.name}"
            document = {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": name, "namespace": namespace},
                "spec": {"hard": {key: str(amount) for key, amount in hard.items()}, **selector},
            }
            yield document, tuple(limits)


def native_form(quota: Quota, view: ClusterView, settings: Quotas) -> NativeForm | Unknown:
    """The form of a GPUQuota in ResourceQuotas, exact for the devices that the cluster has now.

    Kubernetes counts each name of devices by itself, and every device as one. So a limit is exact if all devices that
    it counts are requested by one name, which stands for no other devices, and count the same in it. For claims this holds
    from the time when they are created, and if they request a number of devices: claims for all devices, and
    alternatives, count for more in a ResourceQuota, never for less.

    Args:
        quota: Of a namespace.
        view: The cluster; the form is unknown without its nodes, DeviceClasses and ResourceSlices.
        settings: How quotas count.
    """
    if UNKNOWN in (view.derive(node_kinds), gpu_groups(view)) or not known_classes(view).are_listed:
        return UNKNOWN
    names, exact, lost = _counted_names(view, settings), [], []
    for limit in quota.limits:
        found = _native_limit(limit, quota, names, view)
        if isinstance(found, str):
            lost.append((limit, found))
        else:
            exact.append(found)
    return NativeForm(tuple(exact), tuple(lost))


@dataclass(slots=True)
class _CountedName:
    """A name by which Kubernetes counts devices that the cluster has."""

    demands: list[DeviceDemand]
    """Those for one device, one for each way to request it."""
    classes: list[str]
    """The DeviceClasses whose claims it counts."""
    is_shareable: bool = False
    """True if claims can get parts of its devices."""


def _counted_names(view: ClusterView, settings: Quotas) -> Mapping[str, _CountedName]:
    """By the keys of ResourceQuotas. Names that give no device of the cluster are left out."""
    names: defaultdict[str, _CountedName] = defaultdict(lambda: _CountedName([], []))
    nodes, known, with_devices = view.derive(node_kinds), known_classes(view), view.derive(classes)
    offers = () if nodes is UNKNOWN else (name for kind in nodes.all for name, _ in kind.offers)
    for resource in sorted(set(offers)):
        limits = {"resources": {"limits": {resource: 1}}}
        pod = Pod.read({"metadata": {"name": "probe"}, "spec": {"containers": [{"name": "probe", **limits}]}})
        if demands := demands_of_pod(pod, (), view, settings).pieces.get(OWN):
            names[REQUESTS + resource].demands.extend(demands)
    counts_resources = Feature.DRAExtendedResource.is_complete(view) is True
    for name in known:
        groups = with_devices.devices(name)
        if not groups:
            continue
        request = {"name": "probe", "exactly": {"deviceClassName": name}}
        claim = {"apiVersion": "resource.k8s.io/v1", "spec": {"devices": {"requests": [request]}}}
        resource_name = extended_resource_name(known.get(name) or {}) if counts_resources else None
        found = names[f"{name}{DEVICES_OF_CLASS}" if resource_name is None else REQUESTS + resource_name]
        found.demands.extend(demands_of_claim(claim, view, settings, "").demands)
        found.classes.append(name)
        found.is_shareable = found.is_shareable or any(group.is_shareable for group in groups)
    return names


def _native_limit(
    limit: Limit, quota: Quota, names: Mapping[str, _CountedName], view: ClusterView
) -> NativeLimit | str:
    """The limit in a ResourceQuota, or the reason why there is none."""
    if quota.mode == "Warn":
        return "the GPUQuota only warns (mode Warn), and a ResourceQuota refuses"
    alone = replace(limit, selector=replace(limit.selector, priority_classes=()))
    amounts: dict[str, set[Fraction]] = {}
    for key, name in names.items():
        kinds = [DeviceDemand(1, frozenset({kind})) for demand in name.demands for kind in _kinds(demand)]
        found = [bill([each], replace(quota, limits=(alone,))) for each in (*name.demands, *kinds)]
        if unknown := next((each for each in found if isinstance(each, UnknownProduct | UnknownMemory)), None):
            return unknown.text
        sizes = {
            each.amounts.get(limit.name, Fraction())
            for each in found
            if not isinstance(each, UnknownProduct | UnknownMemory)
        }
        if any(sizes):
            amounts[key] = sizes
    if not amounts:
        return "the cluster has no device that it counts"
    if len(amounts) > 1:
        return f"Kubernetes counts {format_list(sorted(amounts), len(amounts))} each by itself"
    ((key, sizes),) = amounts.items()
    name = names[key]
    if len(sizes) > 1:
        return _difference(limit, key, sizes)
    if name.is_shareable and limit.unit != "devices":
        return f"claims can get parts of the devices of {key}, and Kubernetes counts devices"
    if len(name.classes) > 1:
        return f"Kubernetes counts only one of {format_list(name.classes, len(name.classes))} in a claim for both"
    scope = _scope(limit, view)
    if isinstance(scope, str):
        return scope
    if scope is not None and name.classes:
        return f"a ResourceQuota by PriorityClass counts no claims, and {key} is also requested by claims"
    return NativeLimit(limit, key, floor(limit.hard / max(sizes)), scope)


def _kinds(demand: DeviceDemand) -> Iterable[DeviceKind]:
    return (kind for choice in demand.choices for kind in choice.kinds)


def _difference(limit: Limit, key: str, sizes: set[Fraction]) -> str:
    if Fraction() in sizes:
        return f"{key} also counts devices that the limit does not count"
    least, most = amount_text(limit.unit, min(sizes)), amount_text(limit.unit, max(sizes))
    return f"the devices of {key} count from {least} to {most} each, and Kubernetes counts every device as one"


def _scope(limit: Limit, view: ClusterView) -> Object | str | None:
    """The scope of a limit by PriorityClasses; a text if there is none, None if it counts all pods."""
    globs = limit.selector.priority_classes
    if not globs or "*" in globs:
        return None
    if "?*" in globs:
        return {"scopeName": "PriorityClass", "operator": "Exists"}
    values = [each for each in globs if not {"*", "?"} & set(each)]
    if len(values) < len(globs):
        listed = view.list("PriorityClass")
        if listed is UNKNOWN:
            return f"which PriorityClasses {format_list(globs, len(globs))} matches is unknown"
        names = map(name_of, listed)
        values += [each for each in names if any(fnmatchcase(each, glob) for glob in globs) and each not in values]
    if not values:
        return f"no PriorityClass matches {format_list(globs, len(globs))}"
    return {"scopeName": "PriorityClass", "operator": "In", "values": sorted(values)}


_HARD = FieldPath(["spec", "hard"])
_LIMITS = "limits."
_OTHER_DOMAIN = re.compile(r"(?:requests\.)?(.+)\.deviceclass\.resource\.kubernetes\.io/devices")
"""A limit of the devices of a class with the wrong domain, that of implicit resources; the group is the class."""


def validate(request: Request, view: ClusterView, settings: Quotas) -> Iterator[Finding]:
    """Findings on a ResourceQuota or LimitRange that is created, or whose spec changes."""
    document, old = request.object, request.old_object
    if request.operation == "DELETE" or request.subresource or not isinstance(document, dict):
        return
    if old is not None and lookup(old, ("spec",)) == lookup(document, ("spec",)):
        return
    if request.kind == "LimitRange":
        yield from imposed_gpus(document, view)
        return
    yield from uncounted_limits(document, view)
    yield from equal_limits(document, request.namespace, view, settings)


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


@RulesOn("ResourceQuota").rule(
    "GA514",
    "A ResourceQuota must allow as many GPUs as the GPUQuota beside it",
    default=Severity.AUDIT,
    remedy="write the same amount in both, or remove one of them",
    source="docs/quota.md",
)
def equal_limits(quota: Object, namespace: str, view: ClusterView, settings: Quotas) -> Iterator[Problem]:
    """If both limit the same devices, the lower limit refuses, and the higher one never does.

    Only limits are compared that count the same: those that `gpu-admission quota --compile` prints. The lower one may be
    intended, so this is for audits only.
    """
    hard = mapping_at(quota, _HARD)
    document = quota_shown(namespace, view)
    if document is None or not any(key.startswith(REQUESTS) or key.endswith(DEVICES_OF_CLASS) for key in hard):
        return
    try:
        form = native_form(parse_quota(document), view, settings)
    except QuotaError:
        return  # GA501 has reported it.
    least: dict[str, NativeLimit] = {}
    for each in () if form is UNKNOWN else form.limits:
        if each.key in hard and scopes_of(quota) == ([] if each.scope is None else [each.scope]):
            least[each.key] = min(each, least.get(each.key, each), key=lambda limit: limit.hard)
    for key, each in least.items():
        amount, allowed = billionths(hard[key]), each.hard * ONE
        if amount == allowed:
            continue
        effect = "the GPUQuota never refuses" if amount < allowed else "this limit never refuses"
        limit = f'limit "{each.limit.name}" of GPUQuota {QUOTA_NAME}'
        text = f"is {hard[key]}, and {limit} allows {each.hard} of the same devices; {effect}"
        yield Problem(_HARD / key, text, f'write "{each.hard}", or change the limit of the GPUQuota')


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
