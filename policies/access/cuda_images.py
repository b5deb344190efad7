"""CUDA images: those that set NVIDIA_VISIBLE_DEVICES, and those that CUDA_VERSION marks as old."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from policies.access.checks import ACCESS, EXEMPT, RECREATE, request_or
from policies.access.env_from import sourced_variable
from policies.access.subject import VISIBLE_DEVICES
from policies.checks import problem
from policies.decision import Severity
from policies.kubernetes.printable import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.access.subject import Container, Subject
    from policies.checks import Problem
    from policies.kubernetes.paths import FieldPath

_VERSION = "CUDA_VERSION"
_REQUIRE = "NVIDIA_REQUIRE_CUDA"


@ACCESS.rule(
    "GA610",
    "A container that sets CUDA_VERSION must say which GPUs are visible",
    default=Severity.WARN,
    remedy=f"request nvidia.com/gpu: 1 in resources.limits, or set NVIDIA_VISIBLE_DEVICES to void; {EXEMPT}",
    source="nvidia-container-toolkit internal/config/image/cuda_image.go IsLegacy",
)
def legacy_image(subject: Subject) -> Iterator[Problem]:
    """CUDA_VERSION without NVIDIA_REQUIRE_CUDA marks CUDA images older than NVIDIA_VISIBLE_DEVICES.

    For such images, NVIDIA's container runtime gives every GPU of the node to a container that has CUDA_VERSION and
    neither of the two others, whether the image or the pod sets it. Builds set CUDA_VERSION for other reasons, so this
    only warns, in every mode.
    """
    for container in subject.containers:
        version = _setting(container, _VERSION, subject)
        if version is None or version.value == "" or container.requests_gpu:
            continue
        if _setting(container, VISIBLE_DEVICES, subject) is not None:
            continue
        require = _setting(container, _REQUIRE, subject)
        if require is None or require.value == "":
            text = (
                f"{container.title} {container.lack} and has CUDA_VERSION{version.origin}, but neither "
                "NVIDIA_REQUIRE_CUDA nor NVIDIA_VISIBLE_DEVICES: NVIDIA's container runtime takes it for an old CUDA "
                "image and gives it every GPU of the node, unless the image says otherwise"
            )
            yield problem(version.path, text, request_or(container, f"set {VISIBLE_DEVICES} to void"))


class _Setting(NamedTuple):
    """A variable of a container."""

    path: FieldPath
    value: str | None
    """None if it is known only on the node."""
    origin: str = ""
    """For messages: the source of the variable, if it is not the pod itself."""


def _setting(container: Container, name: str, subject: Subject) -> _Setting | None:
    variable = container.variable(name)
    if variable is not None:
        return _Setting(container.path / "env" / variable.entry, variable.value)
    found = sourced_variable(container, name, subject) if "envFrom" in container.fields else None
    if found is None:
        return None
    return _Setting(found.path, found.value, f" from {found.kind} {shown(found.source)}")


_OF_NVIDIA = re.compile(r"(?:.*/)?nvcr\.io/nvidia/|(?:(?:index\.|registry-1\.)?docker\.io/)?nvidia/")
"""Names of NVIDIA's images, in its registry, in a mirror named after it, and in Docker Hub."""


@ACCESS.rule(
    "GA608",
    "A container with a CUDA image must request a GPU, or see none",
    default=Severity.AUDIT,
    remedy=f"request nvidia.com/gpu: 1 in resources.limits, or set NVIDIA_VISIBLE_DEVICES to void; {EXEMPT}",
    source="gitlab.com/nvidia/container-images/cuda dist/*/base/Dockerfile (ENV NVIDIA_VISIBLE_DEVICES)",
    suspicion=True,
)
def visible_by_image(subject: Subject) -> Iterator[Problem]:
    """NVIDIA's images set NVIDIA_VISIBLE_DEVICES to all.

    Where NVIDIA's container runtime is the default, a container with such an image gets every GPU of the node without a
    request. But a name does not prove what an image contains, and many builds use these images, so this is audited, in
    every mode. The image of a container can be changed later, and is reviewed then.
    """
    for container in subject.images:
        image = container.fields.get("image")
        if not isinstance(image, str) or "nvidia/" not in image or not _OF_NVIDIA.match(image):
            continue
        if container.variable(VISIBLE_DEVICES) is None and not container.requests_gpu:
            text = (
                f"{container.title} {container.lack} and runs {shown(image)}: NVIDIA's images set NVIDIA_VISIBLE_DEVICES "
                "to all, so where NVIDIA's container runtime is the default it gets every GPU of the node"
            )
            remedy = request_or(container, f"set {VISIBLE_DEVICES} to void") if subject.containers else RECREATE
            yield problem(container.path / "image", text, remedy)
