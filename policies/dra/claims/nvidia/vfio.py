"""VFIO: GPUs that are passed through to virtual machines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.nvidia.configs import nvidia_configs
from policies.dra.claims.nvidia.reach import types_asked
from policies.kubernetes.misspellings import closest
from policies.kubernetes.paths import lookup
from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from policies.dra.claims.nvidia.configs import NvidiaConfig
    from policies.dra.claims.subject import Subject
    from policies.dra.resource_claims import Subrequest

_POLICIES = ("LegacyOnly", "PreferIommuFD")


@CLAIMS.rule(
    "GA248",
    "The VFIO devices of a claim must have one config, with an IOMMU backend that exists",
    default=Severity.DENY,
    remedy="write one VfioDeviceConfig without requests, which is for all VFIO devices of the claim",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/iommu.go, "
    "cmd/gpu-kubelet-plugin/device_state.go prepareDevices",
)
def vfio_configs(subject: Subject) -> Iterator[Problem]:
    """The device nodes of the IOMMU are the same for all VFIO devices of a claim, so the driver takes one config only.

    Requests that no config is for have the driver's default, which counts as one more.
    """
    configs = list(nvidia_configs(subject, "VfioDeviceConfig"))
    for found in configs:
        policy = found.value("iommu", "backendPolicy")
        if isinstance(policy, str) and policy not in ("", *_POLICIES):
            text = f"unknown IOMMU backend policy: {printable(policy)}"
            guess = closest(policy, _POLICIES)
            remedy = f'write "{guess}"' if guess else f"write one of {', '.join(_POLICIES)}"
            text += f", supported IOMMU backend policies: {', '.join(_POLICIES)}"
            yield problem(found.at("iommu", "backendPolicy"), text, remedy)
    groups = {_group(subrequest, configs, subject) for subrequest in _vfio_requests(subject)} if configs else set()
    if len(groups) > 1:
        text = f"the claim contains {len(groups)} VFIO device groups, but at most one is supported per claim"
        yield problem(configs[-1].config.path, text)


def _vfio_requests(subject: Subject) -> Iterator[Subrequest]:
    """The requests that certainly get VFIO devices."""
    for request in subject.requests:
        for subrequest in request.subrequests:
            if not request.is_prioritized and types_asked(subrequest, subject.facts) == {"vfio"}:
                yield subrequest


def _group(subrequest: Subrequest, configs: list[NvidiaConfig], subject: Subject) -> Hashable:
    """The config that a request's devices get: the last that is for them, else that of their class, else the default."""
    for index, found in reversed(list(enumerate(configs))):
        if not found.config.requests or subrequest.full_name in found.config.requests:
            return index
    of_class = lookup(subject.facts.device_class(subrequest.device_class), ("spec", "config"))
    return subrequest.device_class if of_class else None
