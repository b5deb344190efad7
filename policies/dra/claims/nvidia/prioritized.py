"""Configs of prioritized lists: NVIDIA's driver compares the names of requests exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.nvidia.configs import nvidia_configs
from policies.dra.claims.nvidia.reach import types_asked
from policies.dra.claims.nvidia.schemas import TYPE_OF
from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.nvidia.configs import NvidiaConfig
    from policies.dra.claims.subject import Subject
    from policies.dra.resource_claims import DeviceRequest


@CLAIMS.rule(
    "GA249",
    "A config must name the alternatives of a prioritized list, not the list",
    default=Severity.DENY,
    remedy="write the alternatives, as in gpu/large, or leave requests out to mean all devices of the type",
    source="dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_state.go getConfigResultsMap",
)
def named_alternatives(subject: Subject) -> Iterator[Problem]:
    """Kubernetes lets the name of a prioritized list stand for its alternatives; NVIDIA's driver does not look it up.

    The devices that were allocated are those of `gpu/large`. The driver finds no config of that name and takes its
    default silently, so that a GPU that was to be shared is not.
    """
    lists = {request.name: request for request in subject.requests if request.is_prioritized}
    for found in nvidia_configs(subject):
        names = found.config.fields.get("requests")
        for index, name in enumerate(names if isinstance(names, list) else ()):
            missing = _missing(lists[name], found, subject) if isinstance(name, str) and name in lists else []
            if missing:
                devices = ", ".join(f'"{printable(alternative)}"' for alternative in missing)
                text = f'"{printable(name)}" is a prioritized list, whose devices are those of {devices}; '
                text += f"{found.driver} compares names exactly and ignores the config"
                path = found.config.path / "requests" / index
                yield problem(path, text, f"write {', '.join(map(printable, missing))}")


def _missing(request: DeviceRequest, found: NvidiaConfig, subject: Subject) -> list[str]:
    """The alternatives that a config was meant for and does not name: those that can get devices of its type."""
    type_ = TYPE_OF.get(found.kind)
    return [
        subrequest.full_name
        for subrequest in request.subrequests
        if subrequest.full_name not in found.config.requests
        and (type_ is None or type_ in types_asked(subrequest, subject.facts))
    ]
