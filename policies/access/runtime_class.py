"""NVIDIA's container runtime, chosen by a RuntimeClass."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.access.checks import ACCESS, EXEMPT, RECREATE
from policies.checks import problem
from policies.decision import Severity
from policies.fleet import GPUAccess
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import shown
from policies.view import UNKNOWN, ClusterView

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.access.subject import Container, Subject
    from policies.checks import Problem

_HANDLERS = frozenset({"nvidia", "nvidia-cdi", "nvidia-legacy", "nvidia-experimental"})
"""The names of NVIDIA's runtime in the configuration of container runtimes, unless the ClusterPolicy sets another.

Source: nvidia-container-toolkit cmd/nvidia-ctk-installer/container/operator; gpu-operator assets/pre-requisites;
`nvidia-experimental` existed until toolkit 1.14.
"""


@ACCESS.rule(
    "GA603",
    "A pod without a GPU request must not use NVIDIA's container runtime",
    default=Severity.WARN,
    setting="access.mode",
    remedy=(
        "request nvidia.com/gpu: 1 in resources.limits, remove runtimeClassName, or set NVIDIA_VISIBLE_DEVICES to void "
        f"in every container; {EXEMPT}"
    ),
    source="gpu-operator assets/pre-requisites; nvidia-container-toolkit internal/config/image/cuda_image.go",
)
def unrequested_runtime(subject: Subject) -> Iterator[Problem]:
    """NVIDIA's container runtime gives GPUs to containers that name them, and images can.

    CUDA images set NVIDIA_VISIBLE_DEVICES to all. Under NVIDIA's runtime a container of such an image gets every GPU of
    the node, unless it requests some and the device plugin chooses them. In a pod that requests GPUs, the other
    containers, and those whose request may give no GPU, are only audited: most are sidecars whose images set nothing, and
    the RuntimeClass applies to every container of a pod. If an update changes the image of a container, that container is
    reviewed again.
    """
    name = subject.spec.get("runtimeClassName")
    if not isinstance(name, str) or not name or not subject.pod_containers:
        return
    handler = _handler(name, subject.view)
    if handler not in _HANDLERS and handler not in subject.view.derive(_configured_handlers):
        return
    left_to_images = [each for each in subject.images if _is_left_to_its_image(each)]
    runtime = f"is {shown(name)}" if handler == name else f"is {shown(name)} with the handler {shown(handler)}"
    path = FieldPath(("spec", "runtimeClassName"))
    if any(container.requests_gpu for container in subject.pod_containers):
        for container in left_to_images:
            text = (
                f"{runtime}, NVIDIA's container runtime, also for {container.title}, {container.doubt}: if its image "
                "sets NVIDIA_VISIBLE_DEVICES, as CUDA images do, it gets every GPU of the node"
            )
            remedy = f"set NVIDIA_VISIBLE_DEVICES to void in {container.title}" if subject.is_created else RECREATE
            yield problem(path, text, remedy, severity=Severity.AUDIT)
    elif left_to_images:
        who, remedy = "no container requests a GPU", None
        for container in subject.pod_containers:
            if container.loss is not None:
                who = f"{container.title} {container.lack}"
                remedy = (
                    f"remove {container.loss.field} or runtimeClassName, or set NVIDIA_VISIBLE_DEVICES to void in every "
                    f"container; {EXEMPT}"
                )
                break
        text = (
            f"{runtime}, NVIDIA's container runtime, and {who}: an image that sets "
            "NVIDIA_VISIBLE_DEVICES, as CUDA images do, gets every GPU of the node"
        )
        yield subject.problem(path, text, remedy if subject.is_created else RECREATE)


def _is_left_to_its_image(container: Container) -> bool:
    """True if its image may choose its GPUs: neither a claim nor the device plugin certainly does."""
    return not (container.access is GPUAccess.CERTAIN or container.uses_device_plugin or container.sees_nothing)


def _handler(name: str, view: ClusterView) -> str:
    """The handler of a RuntimeClass; its name if the RuntimeClass is unknown."""
    handler = lookup(view.get("RuntimeClass", name), ("handler",))
    return handler if isinstance(handler, str) else name


def _configured_handlers(view: ClusterView) -> frozenset[str]:
    """The names of NVIDIA's runtime in ClusterPolicies, `spec.operator.runtimeClass`."""
    policies = view.list("ClusterPolicy")
    names = (
        lookup(policy, ("spec", "operator", "runtimeClass")) for policy in (() if policies is UNKNOWN else policies)
    )
    return frozenset(name for name in names if isinstance(name, str) and name)
