"""Amounts of GPUs that the containers of a pod request, and the size of pods that are reviewed."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

from policies.kubernetes.names import shown
from policies.kubernetes.nodes import MOST_EXPRESSIONS, MOST_VALUES, REQUIRED, SelectionSize
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.pods import SPEC
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.mig import correct_name, parse_resource
from policies.rules.checks import PODS, Problem
from policies.rules.decision import Finding, Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.kubernetes.pods import Container, Pod


@dataclass(frozen=True, slots=True)
class Amounts:
    """The GPUs that a pod requests, and what is wrong with the amounts."""

    of: dict[str, dict[str, int]]
    """Devices by container name and resource name, without containers that name no GPU resource."""
    findings: tuple[Finding, ...]


def gpu_resources(container: Container) -> list[str]:
    """The GPU resources that a container names in limits or requests, sorted."""
    return sorted(name for name in {*container.limits, *container.requests} if parse_resource(name) is not None)


def requests_gpus(pod: Pod) -> bool:
    """True if any container names a GPU resource."""
    return any(
        parse_resource(name) is not None
        for container in pod.all_containers
        for name in (*container.limits, *container.requests)
    )


def limit_path(container: Container, resource: str) -> FieldPath:
    """The path of a container's limit of a resource, or of its request if it has no limit."""
    section = "limits" if resource in container.limits else "requests"
    return FieldPath((*container.path, "resources", section, resource))


def read_amounts(pod: Pod) -> Amounts:
    """Read every GPU amount of a pod: whole numbers, the same in limits and requests."""
    findings: list[Finding] = []
    amounts: dict[str, dict[str, int]] = {}
    for container in pod.all_containers:
        for resource in gpu_resources(container):
            limit = _amount_of(container.limits, resource)
            request = limit if _is_copied(container, resource) else _amount_of(container.requests, resource)
            if isinstance(limit, str) or isinstance(request, str):
                findings += whole_amounts(container, resource, limit, request)
            elif limit != request:
                findings += equal_amounts(container, resource, limit, request)
            else:
                if limit:
                    findings += published_profile(container, resource)
                amounts.setdefault(container.name, {})[resource] = limit or 0
    return Amounts(amounts, tuple(findings))


def _is_copied(container: Container, resource: str) -> bool:
    """True if limit and request are the same text or number, as after the API server's defaulting."""
    limit, request = container.limits.get(resource), container.requests.get(resource)
    return limit is not None and limit.__class__ is request.__class__ and limit == request


@PODS.rule(
    "GA302",
    "GPUs must be requested in whole numbers",
    remedy="request a whole number of GPUs, or a MIG device such as nvidia.com/mig-1g.10gb",
    source="k8s.io/kubernetes pkg/apis/core/validation ValidateResourceQuantityValue (must be an integer)",
)
def whole_amounts(
    container: Container, resource: str, limit: int | str | None, request: int | str | None
) -> Iterator[Problem]:
    """Extended resources are integers.

    `1000m` is 1 and is accepted; 0.5 GPU is not something that a device plugin or a claim can give. Parts of a GPU
    are MIG devices or shared GPUs, which have names of their own. The API server refuses such pods itself; reviews
    of files, and of objects that will make pods, say so before. An empty amount is warned about, because Kubernetes
    reads it as 0.
    """
    # The API server copies limits to requests, so the same text in both is one mistake.
    read = (("limits", limit), ("requests", None if request == limit else request))
    for section, text in read:
        if isinstance(text, str):
            path = container.path / "resources" / section / resource
            if text == _EMPTY:
                remedy = "write how many GPUs it gets, or remove the resource"
                yield Problem(path, text, remedy, severity=Severity.WARN)
            else:
                yield Problem(path, text)


_EMPTY = "is empty, which Kubernetes reads as 0: the container gets no GPU"


def _amount_of(amounts: Mapping[str, Any], resource: str) -> int | str | None:
    """The amount of a resource, or what is wrong with it; None if it is absent."""
    if resource not in amounts:
        return None
    value = amounts[resource]
    if value is None:
        # The API server silently reads null as 0; a webhook sees the 0.
        return _EMPTY
    try:
        count, parts = parse_quantity(value).as_integer_ratio()
    except QuantityError as error:
        return f"{shown(value)} {error}"
    if parts == 1 and count >= 0:
        return count
    if parts == 1:
        return f"{shown(value)} is negative"
    # The API server writes the author's 0.5 as 500m.
    milli = isinstance(value, str) and len(value) < 20 and value.endswith("m")
    return f"{f'{Decimal(count) / parts:f}' if milli else shown(value)} is not a whole number of devices"


@PODS.rule(
    "GA303",
    "Limits and requests of a GPU must be equal",
    remedy="write the limit only; Kubernetes copies it to the request",
    source="k8s.io/kubernetes pkg/apis/core/validation ValidateContainerResourceRequirements",
)
def equal_amounts(container: Container, resource: str, limit: int | None, request: int | None) -> Iterator[Problem]:
    """GPUs cannot be overcommitted, so Kubernetes demands that limit and request are the same number.

    The API server would refuse the pod after conversion was decided; the finding says which two numbers differ.
    """
    path = container.path / "resources"
    if limit is None:
        text = f"the container requests {request} without a limit, and GPUs need one"
        yield Problem(path / "requests" / resource, text, f'add "{resource}: {request}" to limits')
    elif request is None:
        yield Problem(path / "limits" / resource, f"is {limit}, and there is no equal request")
    elif limit != request:
        yield Problem(path / "requests" / resource, f"is {request} while the limit is {limit}")


@PODS.rule(
    "GA305",
    "MIG devices must be requested by a profile that DRA drivers publish",
    remedy="request a profile of the form nvidia.com/mig-<slices>g.<memory>gb",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/nvlib.go getGpuInfo, getMigDevices, "
    "inspectMigProfilesAndPlacements",
)
def published_profile(container: Container, resource: str) -> Iterator[Problem]:
    """NVIDIA's DRA driver publishes MIG devices whose compute instance fills their GPU instance.

    An example is `2g.10gb`. Smaller compute instances (`1c.2g.10gb`) exist only under the device plugin, and a name that is no profile
    exists nowhere.
    """
    parsed = parse_resource(resource)
    if parsed is None or not parsed.mig:
        return
    path = limit_path(container, resource)
    if parsed.profile is None:
        spelt = resource.removeprefix("nvidia.com/mig-").removesuffix(".shared")
        correct = correct_name(resource)
        yield Problem(path, f"{shown(spelt)} is no MIG profile", f'write "{correct}"' if correct else None)
    elif parsed.profile.shares_gpu_instance:
        text = f"{parsed.profile} is a compute instance smaller than its GPU instance, which no DRA driver publishes"
        whole = f"nvidia.com/mig-{parsed.profile.gpu_slices}g.{parsed.profile.memory_gb}gb"
        yield Problem(path, text, f"request {whole}")


MOST_CONTAINERS = 1_000
MOST_RESOURCES = 200
"""GPU resources over all containers, including amounts of 0."""

_TERMS = FieldPath([*SPEC, *REQUIRED, "nodeSelectorTerms"])


@PODS.rule(
    "GA326",
    "A pod must be small enough to be reviewed in time",
    remedy="spread the work over several pods, and select nodes by one label of your own",
    source="docs/conversion.md",
)
def reviewable_size(pod: Pod) -> Iterator[Problem]:
    """The API server waits ten seconds for a decision, and other pods wait meanwhile.

    A pod of thousands of containers or conditions is never needed, any user can send one, and it would delay all
    other pods. At most 1,000 containers, 200 GPU resources in them, and 1,000 labels or expressions that select
    nodes, with 10,000 values, are read.
    """
    containers = len(pod.all_containers)
    if containers > MOST_CONTAINERS:
        more = "initContainers" if len(pod.init_containers) > len(pod.containers) else "containers"
        text = f"the pod has {containers} containers, and at most {MOST_CONTAINERS} can be compared in time"
        yield Problem(SPEC / more, text, "spread the work over several pods")
    size = SelectionSize.of(pod.spec)
    for path, count, things, most in (
        (SPEC / "nodeSelector", size.labels, "labels", MOST_EXPRESSIONS),
        (_TERMS, size.expressions, "expressions", MOST_EXPRESSIONS),
        (_TERMS, size.values, "values in its expressions", MOST_VALUES),
    ):
        if count > most:
            text = f"has {count} {things}, and at most {most} can be compared in time"
            yield Problem(path, text, "select the nodes by one label of your own")
    named = ((container, resource) for container in pod.all_containers for resource in gpu_resources(container))
    for container, resource in islice(named, MOST_RESOURCES, MOST_RESOURCES + 1):
        text = f"the containers of the pod name more than {MOST_RESOURCES} GPU resources, the most that can be compared in time"
        yield Problem(limit_path(container, resource), text, "name in each container only what it needs")
