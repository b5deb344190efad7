"""ComputeDomains: nodes whose GPUs share memory, and the template by which pods get a channel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.field_errors import REQUIRED, invalid
from policies.dra.claims.name_errors import as_dns_subdomain, subdomain_error
from policies.dra.claims.nvidia.releases import older
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.printable import printable
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject
    from policies.kubernetes.objects import Object

_TEMPLATE = FieldPath(("spec", "channel", "resourceClaimTemplate", "name"))
_NODES = FieldPath(("spec", "numNodes"))
_GATED_SINCE = "25.8.0"
"""The release of the driver that has the feature gate IMEXDaemonsWithDNSNames, which is on by default."""
_LABEL = ("metadata", "labels", "resource.nvidia.com/computeDomain")


@CLAIMS.rule(
    "GA256",
    "The template of a ComputeDomain must have a name that is free",
    default=Severity.DENY,
    remedy="write a name that no other ResourceClaimTemplate of the namespace has",
    source="dra-driver-nvidia-gpu cmd/compute-domain-controller/resourceclaimtemplate.go",
)
def template_names(subject: Subject) -> Iterator[Problem]:
    """The controller creates a ResourceClaimTemplate of this name, and tries again for ever where it cannot.

    The CRD takes any text. Pods that name a template which somebody else wrote get a claim without a channel.
    """
    if not _is_new(subject):
        return
    name = lookup(subject.object, _TEMPLATE)
    if name == "":
        yield problem(_TEMPLATE, REQUIRED, "write a name for the template, such as imex-channel")
    elif isinstance(name, str) and (error := subdomain_error(name)):
        guess = as_dns_subdomain(name)
        yield problem(
            _TEMPLATE, invalid(name, error), f'write "{guess}"' if guess and not subdomain_error(guess) else None
        )
    elif isinstance(name, str):
        yield from _collisions(subject, name)


def _collisions(subject: Subject, name: str) -> Iterator[Problem]:
    template = subject.facts.view.get("ResourceClaimTemplate", name, subject.namespace)
    uid = lookup(subject.object, ("metadata", "uid"))
    if isinstance(template, dict) and (uid is None or lookup(template, _LABEL) != uid):
        text = f'"{name}" is a ResourceClaimTemplate that exists, so the controller cannot create its own'
        yield problem(_TEMPLATE, text, severity=Severity.WARN)
        return
    domains = subject.facts.view.list("ComputeDomain", subject.namespace)
    for domain in () if domains is UNKNOWN else domains:
        if name_of(domain) != subject.name and _template_of(domain) == name:
            other = printable(name_of(domain))
            text = f'"{name}" is the template of ComputeDomain "{other}" too, and only one of them can create it'
            yield problem(_TEMPLATE, text, severity=Severity.WARN)
            return


@CLAIMS.rule(
    "GA257",
    "A ComputeDomain must not set a number of nodes",
    default=Severity.WARN,
    remedy="write 0, which drivers before 0.4 require, and have the workload itself wait for its workers",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/computedomain.go",
)
def counted_nodes(subject: Subject) -> Iterator[Problem]:
    """Pods start as soon as the daemon of their own node is up; numNodes is deprecated and decides only what status says.

    Only a driver before 25.8, or one whose feature gate IMEXDaemonsWithDNSNames is off, holds pods back until so many
    nodes have joined, and then the number must be right.
    """
    count = lookup(subject.object, _NODES)
    if not _is_new(subject) or isinstance(count, bool) or not isinstance(count, int | None):
        return
    if _waits_for_nodes(subject):
        if not count and isinstance(subject.spec, dict):
            text = 'must be the number of nodes: without the feature gate "IMEXDaemonsWithDNSNames" the driver waits for them'
            yield problem(_NODES, text, "write how many nodes the workload runs on")
    elif count and count > 0:
        text = "is deprecated and holds no pod back until so many nodes are there; it decides only when status is Ready"
        yield problem(_NODES, text)


def _waits_for_nodes(subject: Subject) -> bool:
    """Whether the driver holds pods back: its gate is off, or it is older than the gate."""
    running = subject.facts.driver_version()
    too_old = running is not UNKNOWN and older(running, _GATED_SINCE)
    return too_old or subject.facts.driver_gate("IMEXDaemonsWithDNSNames") is False


def _is_new(subject: Subject) -> bool:
    """Whether it is a ComputeDomain that is created: its spec cannot change."""
    return subject.kind == "ComputeDomain" and subject.old is None


def _template_of(domain: Object) -> Any:
    return lookup(domain, _TEMPLATE)
