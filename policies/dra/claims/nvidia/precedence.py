"""Precedence: of several configs for a device the driver takes the last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.nvidia.configs import nvidia_configs
from policies.dra.claims.nvidia.reach import reached, types_asked
from policies.dra.claims.nvidia.schemas import TYPE_OF, TYPES_OF_DRIVER
from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.dra.claims.nvidia.configs import NvidiaConfig
    from policies.dra.claims.subject import Subject
    from policies.dra.resource_claims import Subrequest


@CLAIMS.rule(
    "GA252",
    "A config must not hide another for the same request",
    default=Severity.WARN,
    remedy="write all settings in one config, or name each request in one config only",
    source="dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/device_state.go getConfigResultsMap, GetOpaqueDeviceConfigs",
)
def hidden_configs(subject: Subject) -> Iterator[Problem]:
    """Configs are not merged: a device has the last that is for it, and of the others it has nothing.

    A config for all devices that a later one amends for some of them is meant like that, and so is a config of a claim
    beside that of a class.
    """
    if subject.kind == "DeviceClass":
        return
    configs = list(nvidia_configs(subject, *TYPE_OF))
    for position, found in enumerate(configs):
        hidden = [
            (subrequest, _hiding(subrequest, found, configs[position + 1 :], subject))
            for subrequest in reached(found, subject)
        ]
        if found.config.requests:
            for subrequest, later in hidden:
                if later is not None:
                    path = found.config.path / "requests" / _index(found, subrequest)
                    text = f'has no effect on "{printable(subrequest.full_name)}", for which {later.config.path} comes later'
                    yield problem(path, text)
        elif hidden and all(later is not None for _, later in hidden):
            yield problem(found.config.path, "has no effect, since later configs are for all requests that it is for")


def _hiding(
    subrequest: Subrequest, found: NvidiaConfig, later: Sequence[NvidiaConfig], subject: Subject
) -> NvidiaConfig | None:
    """A later config that the devices of a request certainly have."""
    types = types_asked(subrequest, subject.facts) & TYPES_OF_DRIVER[found.driver]
    for other in later:
        fits = other.driver == found.driver and other.kind == found.kind
        if fits and (
            subrequest.full_name in other.config.requests
            or (not other.config.requests and types == {TYPE_OF[other.kind]})
        ):
            return other
    return None


def _index(found: NvidiaConfig, subrequest: Subrequest) -> int:
    names: list[object] = found.config.fields["requests"]
    return names.index(subrequest.full_name)
