"""Amounts of GPUs that the containers of a pod request, and the size of pods that are reviewed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from policies.kubernetes.names import shown
from policies.kubernetes.nodes import MOST_EXPRESSIONS, MOST_VALUES, REQUIRED, SelectionSize
from policies.kubernetes.objects import FieldPath
from policies.kubernetes.pods import SPEC
from policies.kubernetes.quantities import QuantityError, parse_quantity
from policies.nvidia.mig import parse_resource
from policies.rules.decision import Finding, Severity
from policies.rules.registry import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

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
            limit = _read(container, "limits", resource)
            request = limit if _is_copied(container, resource) else _read(container, "requests", resource)
            if isinstance(limit, Finding) or isinstance(request, Finding):
                # The API server copies limits to requests, so the same text in both is one mistake.
                wrong = [amount for amount in (limit, request) if isinstance(amount, Finding)]
                findings += wrong if len({problem.message for problem in wrong}) > 1 else wrong[:1]
                continue
            if limit != request:
                findings.append(_unequal(container, resource, limit, request))
                continue
            findings.extend(_profile_problem(container, resource, limit or 0))
            amounts.setdefault(container.name, {})[resource] = limit or 0
    return Amounts(amounts, tuple(findings))


def _is_copied(container: Container, resource: str) -> bool:
    """True if limit and request are the same text or number, as after the API server's defaulting."""
    limit, request = container.limits.get(resource), container.requests.get(resource)
    return limit is not None and limit.__class__ is request.__class__ and limit == request


AMOUNT = rule(
    "GA302",
    "GPUs must be requested in whole numbers",
    default=Severity.DENY,
    why="""
    Extended resources are integers. `1000m` is 1 and is accepted; 0.5 GPU is not something that a device plugin or a
    claim can give. Parts of a GPU are MIG devices or shared GPUs, which have names of their own. The API server refuses
    such pods itself; reviews of files, and of objects that will make pods, say so before. An empty amount is warned
    about, because Kubernetes reads it as 0.""",
    remedy="request a whole number of GPUs, or a MIG device such as nvidia.com/mig-1g.10gb",
    source="k8s.io/kubernetes pkg/apis/core/validation ValidateResourceQuantityValue (must be an integer)",
)


def _read(container: Container, section: str, resource: str) -> int | Finding | None:
    """The amount in one section, or what is wrong with it; None if it is absent."""
    amounts = container.limits if section == "limits" else container.requests
    if resource not in amounts:
        return None
    value = amounts[resource]
    if value is None:
        # The API server silently reads null as 0; a webhook sees the 0.
        text = "is empty, which Kubernetes reads as 0: the container gets no GPU"
        path = container.path / "resources" / section / resource
        return AMOUNT.finding(path, text, "write how many GPUs it gets, or remove the resource", severity=Severity.WARN)
    try:
        count, parts = parse_quantity(value).as_integer_ratio()
    except QuantityError as error:
        problem = str(error)
    else:
        if parts == 1 and count >= 0:
            return count
        problem = "is not a whole number of devices" if parts != 1 else "is negative"
    return AMOUNT.finding(container.path / "resources" / section / resource, f"{shown(value)} {problem}")


UNEQUAL = rule(
    "GA303",
    "Limits and requests of a GPU must be equal",
    default=Severity.DENY,
    why="""
    GPUs cannot be overcommitted, so Kubernetes demands that limit and request are the same number. The API server would
    refuse the pod after conversion was decided; the finding says which two numbers differ.""",
    remedy="write the limit only; Kubernetes copies it to the request",
    source="k8s.io/kubernetes pkg/apis/core/validation ValidateContainerResourceRequirements",
)


def _unequal(container: Container, resource: str, limit: int | None, request: int | None) -> Finding:
    path = container.path / "resources"
    if limit is None:
        return UNEQUAL.finding(
            path / "requests" / resource, f"requests {request} without a limit, and GPUs need one", "write the limit"
        )
    if request is None:
        return UNEQUAL.finding(path / "limits" / resource, f"is {limit}, and there is no equal request")
    return UNEQUAL.finding(path / "requests" / resource, f"is {request} while the limit is {limit}")


PROFILE = rule(
    "GA305",
    "MIG devices must be requested by a profile that DRA drivers publish",
    default=Severity.DENY,
    why="""
    NVIDIA's DRA driver publishes MIG devices whose compute instance fills their GPU instance (`2g.10gb`). Smaller
    compute instances (`1c.2g.10gb`) exist only under the device plugin, and a name that is no profile exists nowhere.""",
    remedy="request a profile of the form nvidia.com/mig-<slices>g.<memory>gb",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/mig.go",
)


def _profile_problem(container: Container, resource: str, count: int) -> list[Finding]:
    parsed = parse_resource(resource)
    if parsed is None or not parsed.mig or not count:
        return []
    path = limit_path(container, resource)
    if parsed.profile is None:
        spelt = resource.removeprefix("nvidia.com/mig-").removesuffix(".shared")
        return [PROFILE.finding(path, f"{shown(spelt)} is no MIG profile")]
    if parsed.profile.shares_gpu_instance:
        whole = f"nvidia.com/mig-{parsed.profile.gpu_slices}g.{parsed.profile.memory_gb}gb"
        return [
            PROFILE.finding(
                path,
                f"{parsed.profile} is a compute instance smaller than its GPU instance, which no DRA driver publishes",
                f"request {whole}",
            )
        ]
    return []


MOST_CONTAINERS = 1_000
MOST_RESOURCES = 200
"""GPU resources over all containers, including amounts of 0."""

_TERMS = FieldPath([*SPEC, *REQUIRED, "nodeSelectorTerms"])


TOO_LARGE = rule(
    "GA326",
    "A pod must be small enough to be reviewed in time",
    default=Severity.DENY,
    why="""
    The API server waits ten seconds for a decision, and other pods wait meanwhile. A pod of thousands of containers
    or conditions is never needed, any user can send one, and it would delay all other pods. At most 1,000 containers,
    200 GPU resources in them, and 1,000 labels or expressions that select nodes, with 10,000 values, are read.""",
    remedy="spread the work over several pods, and select nodes by one label of your own",
    source="docs/conversion.md",
)


def size_problems(pod: Pod) -> Iterator[Finding]:
    """Findings about a pod that is too large for its conversion to be decided in time."""
    containers = len(pod.all_containers)
    if containers > MOST_CONTAINERS:
        more = "initContainers" if len(pod.init_containers) > len(pod.containers) else "containers"
        text = f"the pod has {containers} containers, and at most {MOST_CONTAINERS} can be compared in time"
        yield TOO_LARGE.finding(SPEC / more, text, "spread the work over several pods")
    size = SelectionSize.of(pod.spec)
    for path, count, things, most in (
        (SPEC / "nodeSelector", size.labels, "labels", MOST_EXPRESSIONS),
        (_TERMS, size.expressions, "expressions", MOST_EXPRESSIONS),
        (_TERMS, size.values, "values in its expressions", MOST_VALUES),
    ):
        if count > most:
            text = f"has {count} {things}, and at most {most} can be compared in time"
            yield TOO_LARGE.finding(path, text, "select the nodes by one label of your own")
    named = ((container, resource) for container in pod.all_containers for resource in gpu_resources(container))
    for container, resource in islice(named, MOST_RESOURCES, MOST_RESOURCES + 1):
        text = f"the containers of the pod name more than {MOST_RESOURCES} GPU resources, the most that can be compared in time"
        yield TOO_LARGE.finding(limit_path(container, resource), text, "name in each container only what it needs")
