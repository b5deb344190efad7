"""Domain ids: the ComputeDomain that a channel or a daemon belongs to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.checks import CLAIMS
from policies.dra.claims.nvidia.configs import nvidia_configs
from policies.kubernetes.misspellings import closest
from policies.kubernetes.objects import name_of, namespace_of
from policies.kubernetes.paths import lookup
from policies.kubernetes.printable import printable
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.nvidia.configs import NvidiaConfig
    from policies.dra.claims.subject import Subject
    from policies.kubernetes.objects import Object

_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MODES = ("All", "Single")


@CLAIMS.rule(
    "GA253",
    "A channel must belong to a ComputeDomain in the namespace of the claim",
    default=Severity.DENY,
    remedy="write metadata.uid of the ComputeDomain, or use the ResourceClaimTemplate that it makes",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/computedomainconfig.go, "
    "cmd/compute-domain-kubelet-plugin/computedomain.go AssertComputeDomainNamespace",
)
def domain_ids(subject: Subject) -> Iterator[Problem]:
    """The driver looks for the ComputeDomain by its UID, which it has once it is created, and for channels in the namespace.

    It does not check the mode of allocation: what is not All means Single.
    """
    for found in nvidia_configs(subject, "ComputeDomainChannelConfig", "ComputeDomainDaemonConfig"):
        path, domain = found.at("domainID"), found.value("domainID")
        if domain is None or domain == "":
            yield problem(path, "domainID cannot be empty")
        elif isinstance(domain, str) and not _UID.fullmatch(domain):
            yield problem(path, f"ComputeDomain not found: {printable(domain)} is no UID", _by_name(domain, subject))
        elif isinstance(domain, str):
            yield from _domain_problems(found, domain, subject)
        mode = found.value("allocationMode")
        if isinstance(mode, str) and mode not in ("", *_MODES):
            text = f'"{printable(mode)}" is none of {", ".join(_MODES)}, so the driver takes it for Single'
            guess = closest(mode, _MODES)
            remedy = f'write "{guess}"' if guess else "write All or Single"
            yield problem(found.at("allocationMode"), text, remedy, severity=Severity.WARN)


def _by_name(domain: str, subject: Subject) -> str | None:
    """The UID of a ComputeDomain that was meant by its name."""
    known = subject.facts.view.get("ComputeDomain", domain, subject.namespace)
    uid = lookup(known, ("metadata", "uid"))
    return f"write {printable(uid)}" if isinstance(uid, str) else None


def _domain_problems(found: NvidiaConfig, uid: str, subject: Subject) -> Iterator[Problem]:
    domains = subject.facts.view.list("ComputeDomain")
    if domains is UNKNOWN:
        return
    domain = next((item for item in domains if _uid(item) == uid), None)
    if domain is None:
        yield problem(found.at("domainID"), f"ComputeDomain not found: {uid}", severity=Severity.WARN)
    elif _is_elsewhere(found, domain, subject):
        where = f'"{name_of(domain)}" is in "{namespace_of(domain)}"'
        text = f"the ResourceClaim's namespace is different than the ComputeDomain's namespace: {printable(where)}"
        yield problem(found.at("domainID"), text, "create a ComputeDomain in the namespace of the claim")


def _is_elsewhere(found: NvidiaConfig, domain: Object, subject: Subject) -> bool:
    """Whether a claim can never use a domain; those of daemons are all in the driver's namespace."""
    namespaces = {subject.namespace, namespace_of(domain)}
    return found.kind == "ComputeDomainChannelConfig" and len(namespaces) > 1 and "" not in namespaces


def _uid(domain: Object) -> Any:
    return lookup(domain, ("metadata", "uid"))
