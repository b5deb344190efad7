"""CUDA_VERSION in `env`: what NVIDIA's container runtime takes for an old CUDA image."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.access.checks import ACCESS
from policies.access.exemptions import EXEMPT, ask_or
from policies.access.subject import VISIBLE_DEVICES
from policies.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.access.subject import Subject
    from policies.checks import Problem

_VERSION = "CUDA_VERSION"
_REQUIRE = "NVIDIA_REQUIRE_CUDA"


@ACCESS.rule(
    "GA610",
    "CUDA_VERSION is not set without saying which GPUs are visible",
    default=Severity.WARN,
    setting="access.mode",
    remedy=f"ask for nvidia.com/gpu: 1 in resources.limits, or set NVIDIA_VISIBLE_DEVICES to void; {EXEMPT}",
    source="nvidia-container-toolkit internal/config/image/cuda_image.go IsLegacy",
    wrong="""
    apiVersion: v1
    kind: Pod
    metadata: {name: build, namespace: team-a}
    spec:
      containers:
      - name: build
        image: ubuntu
        env:
        - {name: CUDA_VERSION, value: 12.8.1}""",
    right="""
    apiVersion: v1
    kind: Pod
    metadata: {name: build, namespace: team-a}
    spec:
      containers:
      - name: build
        image: ubuntu
        env:
        - {name: CUDA_VERSION, value: 12.8.1}
        - {name: NVIDIA_VISIBLE_DEVICES, value: void}""",
)
def legacy_image(subject: Subject) -> Iterator[Problem]:
    """CUDA_VERSION without NVIDIA_REQUIRE_CUDA marks CUDA images of the time before NVIDIA_VISIBLE_DEVICES.

    For their sake NVIDIA's container runtime gives every GPU of the node to a container that has the first and neither
    of the others, whether the image sets it or the pod does.
    """
    for container in subject.containers:
        variables = container.environment
        version = variables.get(_VERSION)
        if version is None or version.value == "" or VISIBLE_DEVICES in variables or container.asks_for_gpu:
            continue
        require = variables.get(_REQUIRE)
        if require is None or require.value == "":
            text = (
                f"{container.title} asks for no GPU and has CUDA_VERSION, but neither NVIDIA_REQUIRE_CUDA nor "
                "NVIDIA_VISIBLE_DEVICES: NVIDIA's container runtime takes it for an old CUDA image and gives it every "
                "GPU of the node, unless the image says otherwise"
            )
            path = container.path / "env" / version.entry
            yield subject.problem(path, text, ask_or(container, f"set {VISIBLE_DEVICES} to void"))
