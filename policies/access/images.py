"""Images that set NVIDIA_VISIBLE_DEVICES themselves, as far as their names tell."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.access.checks import ACCESS
from policies.access.exemptions import EXEMPT, ask_or
from policies.access.subject import VISIBLE_DEVICES
from policies.checks import problem
from policies.decision import Severity
from policies.kubernetes.printable import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.access.subject import Subject
    from policies.checks import Problem

_OF_NVIDIA = re.compile(r"(?:.*/)?nvcr\.io/nvidia/|(?:(?:index\.|registry-1\.)?docker\.io/)?nvidia/")
"""Names of NVIDIA's images, in its registry, in a mirror named after it, and in Docker Hub."""


@ACCESS.rule(
    "GA608",
    "A container with a CUDA image must request a GPU, or see none",
    default=Severity.AUDIT,
    remedy=f"ask for nvidia.com/gpu: 1 in resources.limits, or set NVIDIA_VISIBLE_DEVICES to void; {EXEMPT}",
    source="gitlab.com/nvidia/container-images/cuda dist/*/base/Dockerfile (ENV NVIDIA_VISIBLE_DEVICES)",
)
def visible_by_image(subject: Subject) -> Iterator[Problem]:
    """NVIDIA's images set NVIDIA_VISIBLE_DEVICES to all.

    Where NVIDIA's container runtime is the default one, a container made of them gets every GPU of the node without
    asking. A name is only a sign of what an image holds, and many use these images to build, so this is audited, in
    every mode.
    """
    for container in subject.containers:
        image = container.fields.get("image")
        if not isinstance(image, str) or "nvidia/" not in image or not _OF_NVIDIA.match(image):
            continue
        if container.variable(VISIBLE_DEVICES) is None and not container.requests_gpu:
            text = (
                f"{container.title} asks for no GPU and runs {shown(image)}: NVIDIA's images set NVIDIA_VISIBLE_DEVICES "
                "to all, so where NVIDIA's container runtime is the default it gets every GPU of the node"
            )
            yield problem(container.path / "image", text, ask_or(container, f"set {VISIBLE_DEVICES} to void"))
