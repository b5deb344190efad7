"""Configs of ComputeDomains: the controller of the driver writes them, into the templates that it makes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.nvidia.configs import new_configs, nvidia_configs
from policies.dra.claims.nvidia.reach import types_asked
from policies.kubernetes.paths import lookup
from policies.kubernetes.printable import printable
from policies.nvidia.identifiers import COMPUTE_DOMAIN_DRIVER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject
    from policies.dra.resource_claims import Subrequest

_TYPES = {"channel": "ComputeDomainChannelConfig", "daemon": "ComputeDomainDaemonConfig"}
_MADE_BY_CONTROLLERS = (
    ("labels", "resource.nvidia.com/computeDomain"),
    ("annotations", "resource.kubernetes.io/pod-claim-name"),
)
"""What the driver's controller writes on its templates, and Kubernetes on the claims that it makes of templates."""


@CLAIMS.rule(
    "GA254",
    "Configs of ComputeDomains must be left to the controller of the driver",
    default=Severity.WARN,
    remedy="create a ComputeDomain, and have pods name the ResourceClaimTemplate that it makes",
    source="dra-driver-nvidia-gpu cmd/compute-domain-controller/resourceclaimtemplate.go",
)
def hand_written_configs(subject: Subject) -> Iterator[Problem]:
    """The id of a ComputeDomain changes whenever it is created anew, so what is written by hand stops working then.

    The controller keeps the template of a ComputeDomain, and removes it with it.
    """
    for owner in _MADE_BY_CONTROLLERS:
        if lookup(subject.object, ("metadata", *owner)) is not None:
            return
    for found in nvidia_configs(subject, *_TYPES.values()):
        yield problem(found.at("kind"), f"{found.kind} is written by hand, and is for one ComputeDomain only")


@CLAIMS.rule(
    "GA255",
    "Channels and daemons must be requested with their ComputeDomain",
    default=Severity.DENY,
    remedy="create a ComputeDomain, and have pods name the ResourceClaimTemplate that it makes",
    source="dra-driver-nvidia-gpu cmd/compute-domain-kubelet-plugin/device_state.go getConfigResultsMap",
)
def channels_of_domains(subject: Subject) -> Iterator[Problem]:
    """Without a config the driver takes its default, which has no domain, and refuses that when it prepares the device.

    A request for the class of channels is therefore never enough by itself.
    """
    if subject.old is not None or subject.kind == "DeviceClass":
        return
    if any(found.kind == "" for found in nvidia_configs(subject) if found.driver == COMPUTE_DOMAIN_DRIVER):
        return
    for subrequest in subject.subrequests:
        types = types_asked(subrequest, subject.facts)
        kind = _TYPES.get(next(iter(types))) if len(types) == 1 else None
        if kind is not None and not _is_configured(subrequest, kind, subject):
            text = f'"{printable(subrequest.full_name)}" has no {kind}, so the driver says "domainID cannot be empty"'
            yield problem(subrequest.path, text)


def _is_configured(subrequest: Subrequest, kind: str, subject: Subject) -> bool:
    """Whether a config of the claim or of the class is for a request; the name of a list stands for its alternatives."""
    names = {subrequest.full_name, subrequest.full_name.partition("/")[0]}
    for config in new_configs(subject):
        fits = lookup(config.parameters, ("kind",)) == kind if not config.requests else names & {*config.requests}
        if config.driver == COMPUTE_DOMAIN_DRIVER and fits:
            return True
    of_class = lookup(subject.facts.device_class(subrequest.device_class), ("spec", "config"))
    return bool(of_class)
