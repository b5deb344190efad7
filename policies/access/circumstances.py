"""Privileges that extend the access to GPUs of a pod that has another finding."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.access.checks import CIRCUMSTANCES
from policies.checks import problem
from policies.decision import Severity
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import shown

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.access.subject import Container, Subject
    from policies.checks import Problem

_START_WITHOUT = "start the debug container without it, or recreate the pod where it runs already"
_POD_KEEPS = "start the debug container without what the other findings name, or recreate the pod without hostPID"
"""Ephemeral containers cannot be removed or changed, nor can the privileges of a pod that runs."""

_TAKEN_FOR_PRIVILEGED = ("SYS_ADMIN", "CAP_SYS_ADMIN", "ALL", "CAP_ALL")
"""Source: nvidia-container-toolkit internal/config/image/privileged.go."""


@CIRCUMSTANCES.rule(
    "GA609",
    "Privileges must not give a container more GPUs than it requests",
    default=Severity.WARN,
    setting="access.mode",
    remedy="remove it, or what the other findings on this pod name",
    source="nvidia-container-toolkit internal/config/image/privileged.go; Pod Security Standards",
)
def privileges(subject: Subject) -> Iterator[Problem]:
    """`privileged`, `hostPID` and mounts of `/` or `/dev` often have nothing to do with GPUs.

    In a pod that takes GPUs without a request, they remove the last barriers, so they are reported then. The severity is
    that of the gravest other finding; if all of these are off, nothing is reported. On a running pod, only the new debug
    container can still be changed.
    """
    if subject.spec.get("hostPID") is True:
        text = "is true as well: the pod sees every process of the node, and through /proc/PID/root what they see"
        yield problem(FieldPath(("spec", "hostPID")), text, None if subject.is_created else _POD_KEEPS)
    for container in subject.containers:
        yield from _of_container(container)
    for container, mount in subject.host_mounts:
        place = subject.node_places.parents.get(mount.source)
        if place is not None:
            text = f"{container.title} mounts all of {mount.text} of the node as well, and in it {place.what}"
            yield problem(mount.path, text, _remedy(container))


def _of_container(container: Container) -> Iterator[Problem]:
    path = container.path / "securityContext"
    if lookup(container.fields, ("securityContext", "privileged")) is True:
        text = (
            f"{container.title} is privileged as well: it may use every device node of the node, whatever NVIDIA's "
            "container runtime injects, and its NVIDIA_VISIBLE_DEVICES counts where that of others is ignored"
        )
        yield problem(path / "privileged", text, _remedy(container))
    added = lookup(container.fields, ("securityContext", "capabilities", "add"))
    for index, capability in enumerate(added if isinstance(added, list) else ()):
        if capability in _TAKEN_FOR_PRIVILEGED:
            text = (
                f"{container.title} has the capability {shown(capability)} as well: NVIDIA's container runtime takes it "
                "for privileged, and its NVIDIA_VISIBLE_DEVICES counts where that of others is ignored"
            )
            yield problem(path / "capabilities" / "add" / index, text, _remedy(container))


def _remedy(container: Container) -> str | None:
    return _START_WITHOUT if container.list_name == "ephemeralContainers" else None
