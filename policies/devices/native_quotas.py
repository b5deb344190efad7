"""ResourceQuotas of Kubernetes: the claims and extended resources that they count and refuse.

Source: k8s.io/kubernetes pkg/quota/v1/evaluator/core/resource_claims.go claimEvaluator.Usage and pods.go PodUsageFunc;
k8s.io/apiserver pkg/admission/plugin/resourcequota/controller.go CheckRequest.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from policies.devices.deviceclasses import extended_resource_name
from policies.devices.resource_claims import MOST_DEVICES, Claim
from policies.kubernetes.objects import controller_of, has_ended, items_at, lookup, mapping_at, name_of
from policies.kubernetes.quantities import ONE, billionths, pod_amounts
from policies.kubernetes.versions import Feature
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.mig import IMPLICIT_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from policies.devices.resource_claims import DeviceRequest
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView


_CLAIMS = "count/resourceclaims.resource.k8s.io"
DEVICES_OF_CLASS = ".deviceclass.resource.k8s.io/devices"
"""The suffix after the name of a DeviceClass: a limit of its devices in claims."""
REQUESTS = "requests."
_NATIVE = "kubernetes.io/"


class QuotaUse(Enum):
    """The amounts that quotas are assumed to count already."""

    NOTHING = "nothing"
    """Nothing, so that only requests above a limit are refused."""
    SHOWN = "shown"
    """The amounts in their status; nothing where it is missing."""
    COUNTED = "counted"
    """The amounts in their status, or of the known objects where it is missing."""


class NativeQuotaRefusal(NamedTuple):
    """A ResourceQuota that refuses an object, and its amounts in billionths by resource."""

    quota: str
    requested: Mapping[str, int]
    used: Mapping[str, int]
    """Without resources whose used amount is unknown."""
    limited: Mapping[str, int]

    @property
    def is_permanent(self) -> bool:
        """True if more is requested than a limit allows, whatever is used."""
        return any(amount > self.limited[name] for name, amount in self.requested.items())

    @property
    def text(self) -> str:
        """The refusal in the words of the API server."""
        parts = [
            f"{word}: {','.join(f'{name}={_text(amount)}' for name, amount in sorted(amounts.items()))}"
            for word, amounts in (("requested", self.requested), ("used", self.used), ("limited", self.limited))
            if amounts
        ]
        return ", ".join((f"exceeded quota: {self.quota}", *parts))


def counts_pod(quota: Object, pod: Object) -> bool:
    """True if a pod is in every scope of a quota."""
    return all(_is_in_scope(pod, scope) for scope in scopes_of(quota))


def counts_as_resource(device_class: str, resource: str, view: ClusterView) -> bool:
    """True if claims of a class count as the resource, also if version or class is unknown."""
    if not _counts_resources(view):
        return False
    found = view.get("DeviceClass", device_class)
    return found is UNKNOWN or (isinstance(found, dict) and extended_resource_name(found) == resource)


def _counts_resources(view: ClusterView) -> bool:
    """True if claims count as the extended resources of their DeviceClass; an unknown version may do so."""
    return Feature.DRAExtendedResource.is_complete(view) is not False


def refused_pod(
    pod: Object, namespace: str, view: ClusterView, use: QuotaUse = QuotaUse.COUNTED
) -> tuple[NativeQuotaRefusal, ...]:
    """The ResourceQuotas that refuse to create a pod because of its extended resources.

    Args:
        pod: The pod as it would be stored.
        namespace: Where it is created.
        view: The cluster.
        use: What the quotas count already.
    """
    quotas = [each for each in view.known_or_reviewed("ResourceQuota", namespace) if counts_pod(each, pod)]
    return tuple(_refusals(_usage_of_pod(pod), quotas, {}, _Counted(namespace, view, use, pod)))


def refused_claims(
    claims: Iterable[Claim],
    pod: Object,
    namespace: str,
    view: ClusterView,
    use: QuotaUse = QuotaUse.COUNTED,
    *,
    is_stored: bool = False,
    served: Mapping[str, str] | None = None,
) -> tuple[NativeQuotaRefusal, ...]:
    """The ResourceQuotas that refuse claims for a pod, which then waits.

    Quotas with scopes count no claims.

    Args:
        claims: The claims that are to be created for the pod. Their amounts add up.
        pod: The pod as it would be stored. The scheduler makes a claim for its resources
            `deviceclass.resource.kubernetes.io/...`, of which quotas count what they have not counted with the pod.
        namespace: Where they are created.
        view: The cluster.
        use: What the quotas count already.
        is_stored: True if the pod exists, so that the quotas count it already.
        served: The DeviceClass of each other resource of the pod that the scheduler's claim serves too. Which these are
            depends on the node.
    """
    quotas = [each for each in view.known_or_reviewed("ResourceQuota", namespace) if counts_claims(each, view)]
    if not quotas:
        return ()
    of_pod = _usage_of_pod(pod)
    amounts = _usage_of_claims(claims, of_pod, view, served)
    counted = _Counted(namespace, view, use, None if is_stored else pod)
    return tuple(_refusals(amounts, quotas, {} if is_stored else of_pod, counted))


class NativeRoom(NamedTuple):
    """The rest of a limit of a ResourceQuota, in billionths."""

    quota: str
    resource: str
    """`requests.nvidia.com/gpu`."""
    requested: int
    """More than 0."""
    left: int


def native_rooms(
    requested: Iterable[tuple[Object | None, Sequence[Claim], int]], namespace: str, view: ClusterView
) -> Iterator[NativeRoom]:
    """The limits of ResourceQuotas that certainly count what is requested, and what is left of them.

    Extended resources for which the scheduler makes a claim only on some nodes count as with the pod.

    Args:
        requested: Pods as they would be stored, None for claims alone; the claims that are made for each pod; and the number
            of such pods.
        namespace: Where they are created.
        view: The cluster.
    """
    requested = tuple(requested)
    counted = _Counted(namespace, view, QuotaUse.COUNTED, None)
    for quota in view.known_or_reviewed("ResourceQuota", namespace):
        shown, amounts = mapping_at(quota, ("status", "used")), Counter[str]()
        for pod, claims, count in requested:
            each = Counter[str]()
            of_pod = {} if pod is None else _usage_of_pod(pod)
            if pod is not None and counts_pod(quota, pod):
                # The view has not all pods of other kinds, so only the status tells what these amounts are.
                each.update({**{key: amount for key, amount in _basic_usage(pod) if key in shown}, **of_pod})
            if counts_claims(quota, view):
                for name, amount in _usage_of_claims(claims, of_pod, view).items():
                    each[name] += amount
            amounts.update({name: count * amount for name, amount in each.items()})
        for name, limited in _hard(quota).items():
            if amounts[name] > 0:
                left = max(0, limited - (counted.amount(quota, name) or 0))
                yield NativeRoom(name_of(quota), name, amounts[name], left)


def _basic_usage(pod: Object) -> Iterator[tuple[str, int]]:
    """The amounts that quotas count of a pod beside extended resources, by each name for them."""
    amounts = pod_amounts(pod.get("spec"))
    for resource, names in _BASIC.items():
        yield from ((name, amounts.get(resource, 0)) for name in names)


_BASIC = {
    "pods": ("pods", "count/pods"),
    "cpu": ("cpu", "requests.cpu"),
    "memory": ("memory", "requests.memory"),
}


def _refusals(
    amounts: Mapping[str, int], quotas: Iterable[Object], before: Mapping[str, int], counted: _Counted
) -> Iterator[NativeQuotaRefusal]:
    """The refusals of quotas for amounts that are created after others."""
    for quota in quotas:
        limited = _hard(quota)
        used = {name: counted.amount(quota, name) for name in amounts if name in limited}
        over = [name for name in used if amounts[name] + before.get(name, 0) + (used[name] or 0) > limited[name]]
        if over:
            yield NativeQuotaRefusal(
                name_of(quota),
                {name: amounts[name] for name in over},
                {name: amount + before.get(name, 0) for name in over if (amount := used[name]) is not None},
                {name: limited[name] for name in over},
            )


class _Counted:
    """The amounts that the quotas of a namespace count already, without a pod that does not exist yet."""

    def __init__(self, namespace: str, view: ClusterView, use: QuotaUse, new: Object | None) -> None:
        self._namespace = namespace
        self._view = view
        self._use = use
        self._new = new
        self._known: dict[str, Mapping[str, int]] = {}
        """By the scopes of quotas."""

    def amount(self, quota: Object, name: str) -> int | None:
        """The amount of a resource that a quota counts; None if it is unknown."""
        if self._use is QuotaUse.NOTHING:
            return None
        status = mapping_at(quota, ("status", "used"))
        if name in status:
            return billionths(status[name])
        if self._use is QuotaUse.SHOWN:
            return None
        scopes = scopes_of(quota)
        if (key := str(scopes)) not in self._known:
            self._known[key] = self._sum(scopes)
        return self._known[key].get(name, 0)

    def _sum(self, scopes: Sequence[Mapping[str, Any]]) -> Mapping[str, int]:
        """The amounts of the known objects in every one of the scopes; claims are in none."""
        total = Counter[str]()
        new = None if self._new is None else name_of(self._new)
        of_pods = {
            name_of(pod): _usage_of_pod(pod)
            for pod in self._view.known_objects("Pod", self._namespace)
            if not has_ended(pod) and name_of(pod) != new and all(_is_in_scope(pod, scope) for scope in scopes)
        }
        for amounts in of_pods.values():
            total.update(amounts)
        for document in () if scopes else self._view.known_objects("ResourceClaim", self._namespace):
            owner = controller_of(document) if _is_of_scheduler(document) else None
            counted = {} if owner is None else of_pods.get(str(owner.get("name")), {})
            for name, amount in _usage_of_claim(_devices(Claim(document).requests), self._view).items():
                total[name] += max(0, amount - counted.get(name, 0))
        return total


def _is_of_scheduler(claim: Object) -> bool:
    """True if the scheduler made a claim for extended resources, which count with the pod already."""
    annotations = mapping_at(claim, ("metadata", "annotations"))
    return bool(annotations.get("resource.kubernetes.io/extended-resource-claim") == "true")


def _usage_of_pod(pod: Object) -> dict[str, int]:
    """The amounts that quotas count of a pod's extended resources."""
    amounts = pod_amounts(pod.get("spec"))
    return {
        f"{REQUESTS}{name}": amount
        for name, amount in amounts.items()
        if amount and (name.startswith(IMPLICIT_PREFIX) or ("/" in name and _NATIVE not in name))
    }


def _devices(requests: Iterable[DeviceRequest]) -> Counter[str]:
    """The devices of each DeviceClass that a claim may get, in billionths.

    Of alternatives, the most of each class.
    """
    total = Counter[str]()
    for request in requests:
        most: dict[str, int] = {}
        for each in request.subrequests:
            count = MOST_DEVICES if each.allocation_mode == "All" else each.count
            most[each.device_class] = max(most.get(each.device_class, 0), count * ONE)
        total.update(most)
    return total


def _usage_of_claim(devices: Mapping[str, int], view: ClusterView) -> dict[str, int]:
    """The amounts that quotas count of a claim with these devices, by DeviceClass."""
    amounts = Counter({_CLAIMS: ONE})
    for name, amount in devices.items():
        amounts[f"{name}{DEVICES_OF_CLASS}"] += amount
        if not _counts_resources(view):
            continue
        amounts[f"{REQUESTS}{IMPLICIT_PREFIX}{name}"] += amount
        found = view.get("DeviceClass", name)
        resource = extended_resource_name(found) if isinstance(found, dict) else None
        if resource is not None:
            # Kubernetes overwrites this amount for each class, so of several classes with one name only one counts.
            amounts[f"{REQUESTS}{resource}"] = amount
    return dict(amounts)


def _usage_of_claims(
    claims: Iterable[Claim], of_pod: Mapping[str, int], view: ClusterView, served: Mapping[str, str] | None = None
) -> Counter[str]:
    """The amounts that quotas count of claims for a pod, the scheduler's among them, beside its own.

    Args:
        claims: The claims that are made for the pod.
        of_pod: The amounts that quotas count of the pod.
        view: The cluster.
        served: As `refused_claims` takes it.
    """
    prefix = REQUESTS + IMPLICIT_PREFIX
    of_scheduler = Counter[str](
        {name.removeprefix(prefix): amount for name, amount in of_pod.items() if name.startswith(prefix)}
    )
    for resource, device_class in (served or {}).items():
        if not resource.startswith(IMPLICIT_PREFIX):
            of_scheduler[device_class] += of_pod.get(REQUESTS + resource, 0)
    amounts = Counter[str]()
    for claim in claims:
        amounts.update(_usage_of_claim(_devices(claim.requests), view))
    for name, amount in _usage_of_claim(of_scheduler, view).items() if of_scheduler else ():
        amounts[name] += max(0, amount - of_pod.get(name, 0))
    return amounts


def counts_claims(quota: Object, view: ClusterView) -> bool:
    """True if a quota counts claims; quotas with scopes count none."""
    return not scopes_of(quota) and any(_is_of_claims(key, view) for key in _hard(quota))


def _is_of_claims(key: str, view: ClusterView) -> bool:
    """True if a key of a quota makes it count claims."""
    if key == _CLAIMS or key.endswith(DEVICES_OF_CLASS):
        return True
    resource = key.removeprefix(REQUESTS)
    if resource == key or not _counts_resources(view):
        return False
    if resource.startswith(IMPLICIT_PREFIX):
        return view.get("DeviceClass", resource.removeprefix(IMPLICIT_PREFIX)) is not None
    classes = view.list("DeviceClass")
    return classes is not UNKNOWN and any(extended_resource_name(each) == resource for each in classes)


def _hard(quota: Object) -> dict[str, int]:
    hard = mapping_at(quota, ("spec", "hard"))
    return {name: billionths(amount) for name, amount in hard.items()}


def scopes_of(quota: Object) -> list[Mapping[str, Any]]:
    """The scopes of a quota as selector terms; each of `scopes` is one with the operator Exists."""
    named = [{"scopeName": name, "operator": "Exists"} for name in items_at(quota, ("spec", "scopes"))]
    return [*named, *items_at(quota, ("spec", "scopeSelector", "matchExpressions"))]


def _is_in_scope(pod: Object, scope: Mapping[str, Any]) -> bool:
    """True if a pod is in a scope; no pod is in an unknown one."""
    spec = pod.get("spec")
    match lookup(scope, ("scopeName",)):
        case "Terminating" | "NotTerminating" as kind:
            deadline = lookup(spec, ("activeDeadlineSeconds",))
            return bool((isinstance(deadline, int) and deadline >= 0) == (kind == "Terminating"))
        case "BestEffort" | "NotBestEffort" as kind:
            return bool(_is_best_effort(spec) == (kind == "BestEffort"))
        case "PriorityClass":
            return _has_priority_class(lookup(spec, ("priorityClassName",)) or "", scope)
        case "CrossNamespacePodAffinity":
            return any(
                lookup(term, ("namespaces",)) or lookup(term, ("namespaceSelector",)) is not None
                for term in _affinity_terms(spec)
            )
    return False


def _is_best_effort(spec: Any) -> bool:
    """True if no container of the pod, nor the pod, requests or limits cpu or memory."""
    containers = (spec, *items_at(spec, ("containers",)), *items_at(spec, ("initContainers",)))
    sections = (mapping_at(each, ("resources", section)) for each in containers for section in ("requests", "limits"))
    return not any(billionths(section.get(name)) for section in sections for name in ("cpu", "memory"))


def _has_priority_class(name: str, scope: Mapping[str, Any]) -> bool:
    values = scope.get("values") or ()
    match scope.get("operator"):
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return bool(name) and name in values
        case "NotIn":
            return name not in values
    return False


def _affinity_terms(spec: Any) -> Iterator[Any]:
    for kind in ("podAffinity", "podAntiAffinity"):
        affinity = lookup(spec, ("affinity", kind))
        yield from items_at(affinity, ("requiredDuringSchedulingIgnoredDuringExecution",))
        preferred = items_at(affinity, ("preferredDuringSchedulingIgnoredDuringExecution",))
        yield from (lookup(each, ("podAffinityTerm",)) for each in preferred)


def _text(amount: int) -> str:
    whole, rest = divmod(amount, ONE)
    return str(whole) if not rest else f"{amount / ONE:g}"
