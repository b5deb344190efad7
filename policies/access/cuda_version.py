"""CUDA_VERSION: what NVIDIA's container runtime takes for an old CUDA image."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.access.checks import ACCESS
from policies.access.env_from import brought
from policies.access.exemptions import EXEMPT, ask_or
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
    remedy=f"ask for nvidia.com/gpu: 1 in resources.limits, or set NVIDIA_VISIBLE_DEVICES to void; {EXEMPT}",
    source="nvidia-container-toolkit internal/config/image/cuda_image.go IsLegacy",
)
def legacy_image(subject: Subject) -> Iterator[Problem]:
    """CUDA_VERSION without NVIDIA_REQUIRE_CUDA marks CUDA images of the time before NVIDIA_VISIBLE_DEVICES.

    For their sake NVIDIA's container runtime gives every GPU of the node to a container that has the first and neither
    of the others, whether the image sets it or the pod does. Builds set it for reasons of their own and do not know of
    this, so it only warns, in every mode.
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
                f"{container.title} asks for no GPU and has CUDA_VERSION{version.origin}, but neither "
                "NVIDIA_REQUIRE_CUDA nor NVIDIA_VISIBLE_DEVICES: NVIDIA's container runtime takes it for an old CUDA "
                "image and gives it every GPU of the node, unless the image says otherwise"
            )
            yield problem(version.path, text, ask_or(container, f"set {VISIBLE_DEVICES} to void"))


class _Setting(NamedTuple):
    """How a container has a variable."""

    path: FieldPath
    value: str | None
    """None where it is known on the node only."""
    origin: str = ""
    """For messages: where it comes from, if not from the pod itself."""


def _setting(container: Container, name: str, subject: Subject) -> _Setting | None:
    variable = container.variable(name)
    if variable is not None:
        return _Setting(container.path / "env" / variable.entry, variable.value)
    found = brought(container, name, subject) if "envFrom" in container.fields else None
    if found is None:
        return None
    return _Setting(found.path, found.value, f" from {found.kind} {shown(found.source)}")
