"""ComputeDomains, nodes whose GPUs share memory, and the configs that give pods a channel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from policies.claims.claim_subject import CLAIMS, CLAIMS_AND_CLASSES, COMPUTE_DOMAINS
from policies.claims.field_errors import REQUIRED, as_dns_subdomain, invalid, subdomain_error
from policies.claims.nvidia_configs import applied_configs, nvidia_configs, requested_types
from policies.kubernetes.names import printable, write_closest
from policies.kubernetes.objects import FieldPath, lookup, name_of, namespace_of
from policies.kubernetes.view import UNKNOWN
from policies.nvidia.identifiers import COMPUTE_DOMAIN_DRIVER, IMEX_MODE, IMEX_OF_HOST
from policies.nvidia.releases import NVIDIAFeature
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.claims.claim_subject import Subject
    from policies.devices.resource_claims import Subrequest


_UID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MODES = ("All", "Single")


@CLAIMS_AND_CLASSES.rule(
    "GA253",
    "A channel must belong to a ComputeDomain in the namespace of the claim",
    remedy="write metadata.uid of the ComputeDomain, or use the ResourceClaimTemplate that it makes",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/computedomainconfig.go Validate, "
    "cmd/compute-domain-kubelet-plugin/computedomain.go AssertComputeDomainNamespace",
)
def domain_ids(subject: Subject) -> Iterator[Problem]:
    """The driver finds the ComputeDomain by its UID, and allows channels in its namespace only.

    It does not check the mode of allocation: what is not All means Single.
    """
    view = subject.facts.view
    for found in applied_configs(subject, "ComputeDomainChannelConfig", "ComputeDomainDaemonConfig"):
        path, uid = found.at("domainID"), found.value("domainID")
        if uid is None or uid == "":
            yield Problem(path, "domainID cannot be empty")
        elif isinstance(uid, str) and not _UID.fullmatch(uid):
            # Its name may be written.
            meant = lookup(view.get("ComputeDomain", uid, subject.namespace), ("metadata", "uid"))
            remedy = f"write {printable(meant)}" if isinstance(meant, str) else None
            yield Problem(path, f"ComputeDomain not found: {printable(uid)} is no UID", remedy)
        elif isinstance(uid, str) and (domains := view.list("ComputeDomain")) is not UNKNOWN:
            domain = next((item for item in domains if lookup(item, ("metadata", "uid")) == uid), None)
            namespaces = {subject.namespace, namespace_of(domain or {})}
            if domain is None:
                yield Problem(path, f"ComputeDomain not found: {uid}", severity=Severity.WARN)
            # Daemons are all in the driver's namespace.
            elif found.kind == "ComputeDomainChannelConfig" and len(namespaces) > 1 and "" not in namespaces:
                where = printable(f'"{name_of(domain)}" is in "{namespace_of(domain)}"')
                text = f"the ResourceClaim's namespace is different than the ComputeDomain's namespace: {where}"
                yield Problem(path, text, "create a ComputeDomain in the namespace of the claim")
        mode = found.value("allocationMode")
        if isinstance(mode, str) and mode not in ("", *_MODES):
            text = f'"{printable(mode)}" is not one of {", ".join(_MODES)}, so the driver uses Single'
            remedy = write_closest(mode, _MODES, "write All or Single")
            yield Problem(found.at("allocationMode"), text, remedy, severity=Severity.WARN)


_TYPES = {"channel": "ComputeDomainChannelConfig", "daemon": "ComputeDomainDaemonConfig"}
_MADE_BY_CONTROLLERS = (
    ("labels", "resource.nvidia.com/computeDomain"),
    ("annotations", "resource.kubernetes.io/pod-claim-name"),
)
"""Marks of the driver's controller on its templates, and of Kubernetes on the claims that it makes of templates."""


@CLAIMS_AND_CLASSES.rule(
    "GA254",
    "Configs of ComputeDomains must be left to the controller of the driver",
    default=Severity.WARN,
    remedy="create a ComputeDomain, and have pods name the ResourceClaimTemplate that it makes",
    source="dra-driver-nvidia-gpu cmd/compute-domain-controller/resourceclaimtemplate.go Create",
)
def hand_written_configs(subject: Subject) -> Iterator[Problem]:
    """A ComputeDomain that is created again has a new id, so a config written by hand stops working.

    The controller keeps the template of a ComputeDomain, and removes it with it.
    """
    if any(lookup(subject.object, ("metadata", *owner)) is not None for owner in _MADE_BY_CONTROLLERS):
        return
    for found in nvidia_configs(subject, *_TYPES.values()):
        yield Problem(found.at("kind"), f"{found.kind} is written by hand, and is for one ComputeDomain only")


@CLAIMS.rule(
    "GA255",
    "Channels and daemons must be requested with their ComputeDomain",
    remedy="create a ComputeDomain, and have pods name the ResourceClaimTemplate that it makes",
    source="dra-driver-nvidia-gpu cmd/compute-domain-kubelet-plugin/device_state.go getConfigResultsMap",
)
def channels_of_domains(subject: Subject) -> Iterator[Problem]:
    """The driver's default config has no domain, so the driver refuses to prepare the device.

    A request for the class of channels is therefore never enough by itself.
    """
    if subject.old is not None or subject.kind == "DeviceClass":
        return
    if any(found.kind == "" for found in nvidia_configs(subject) if found.driver == COMPUTE_DOMAIN_DRIVER):
        return
    for subrequest in subject.subrequests:
        types = requested_types(subrequest, subject.facts)
        kind = _TYPES.get(next(iter(types))) if len(types) == 1 else None
        if kind is not None and not _is_configured(subrequest, kind, subject):
            text = f'"{printable(subrequest.full_name)}" has no {kind}, so the driver says "domainID cannot be empty"'
            yield Problem(subrequest.path, text)


def _is_configured(subrequest: Subrequest, kind: str, subject: Subject) -> bool:
    """True if a config of the claim or class is for a request; a list's name stands for its alternatives."""
    names = {subrequest.full_name, subrequest.full_name.partition("/")[0]}
    for config in subject.new_configs:
        fits = lookup(config.parameters, ("kind",)) == kind if not config.requests else names & {*config.requests}
        if config.driver == COMPUTE_DOMAIN_DRIVER and fits:
            return True
    class_configs = lookup(subject.facts.device_class(subrequest.device_class), ("spec", "config"))
    return bool(class_configs)


_TEMPLATE = FieldPath(("spec", "channel", "resourceClaimTemplate", "name"))
_NODES = FieldPath(("spec", "numNodes"))


@COMPUTE_DOMAINS.rule(
    "GA256",
    "The template of a ComputeDomain must have a name that is free",
    remedy="write a name that no other ResourceClaimTemplate of the namespace has",
    source="dra-driver-nvidia-gpu cmd/compute-domain-controller/resourceclaimtemplate.go Create",
)
def template_names(subject: Subject) -> Iterator[Problem]:
    """The controller creates a ResourceClaimTemplate of this name, and retries for ever if it cannot.

    The CRD takes any text. Pods that name a template of another author get a claim without a channel.
    """
    name = lookup(subject.object, _TEMPLATE) if _is_new(subject) else None
    if name == "":
        yield Problem(_TEMPLATE, REQUIRED, "write a name for the template, such as imex-channel")
    if not isinstance(name, str) or not name:
        return
    if error := subdomain_error(name):
        guess = as_dns_subdomain(name)
        remedy = f'write "{guess}"' if guess and not subdomain_error(guess) else None
        yield Problem(_TEMPLATE, invalid(name, error), remedy)
        return
    view, uid = subject.facts.view, lookup(subject.object, ("metadata", "uid"))
    template = view.get("ResourceClaimTemplate", name, subject.namespace)
    owner = lookup(template, ("metadata", "labels", "resource.nvidia.com/computeDomain"))
    others = [
        each for each in view.known_objects("ComputeDomain", subject.namespace) if lookup(each, _TEMPLATE) == name
    ]
    other = next((name_of(each) for each in others if name_of(each) != subject.name), None)
    if isinstance(template, dict) and (uid is None or owner != uid):
        text = f'"{name}" is a ResourceClaimTemplate that exists, so the controller cannot create its own'
        yield Problem(_TEMPLATE, text, severity=Severity.WARN)
    elif other is not None:
        text = f'"{name}" is the template of ComputeDomain "{printable(other)}" too, and only one of them can create it'
        yield Problem(_TEMPLATE, text, severity=Severity.WARN)


@COMPUTE_DOMAINS.rule(
    "GA257",
    "A ComputeDomain must not set a number of nodes",
    default=Severity.WARN,
    remedy="write 0, which drivers before 0.4 require, and have the workload itself wait for its workers",
    source="dra-driver-nvidia-gpu api/nvidia.com/resource/v1beta1/computedomain.go ComputeDomainSpec; "
    "cmd/compute-domain-kubelet-plugin/computedomain.go AssertComputeDomainReady",
)
def counted_nodes(subject: Subject) -> Iterator[Problem]:
    """Pods start when the daemon of their own node runs; the deprecated numNodes only affects the status.

    Only a driver before 25.8, or one whose feature gate IMEXDaemonsWithDNSNames is off, holds pods back until so many
    nodes have joined, and then the number must be right. If hosts run the IMEX daemons, nothing reads the number.
    """
    count = lookup(subject.object, _NODES)
    if not _is_new(subject) or isinstance(count, bool) or not isinstance(count, int | None):
        return
    gate = NVIDIAFeature.IMEXDaemonsWithDNSNames
    if subject.facts.has_imex_of_hosts():
        if count and count > 0:
            text = f"has no effect: hosts run the IMEX daemons ({IMEX_MODE}={IMEX_OF_HOST}), and the ComputeDomain is Ready at once"
            yield Problem(_NODES, text, "write 0")
        return
    # The gate is on by default, and older drivers do not have it.
    if gate.is_in(subject.facts.driver_version()) is False or subject.facts.driver_gate(gate) is False:
        if not count and isinstance(subject.spec, dict):
            text = 'must be the number of nodes: without the feature gate "IMEXDaemonsWithDNSNames" the driver waits for them'
            yield Problem(_NODES, text, "write how many nodes the workload runs on")
    elif count and count > 0:
        text = "is deprecated and holds no pod back until so many nodes are there; it decides only when status is Ready"
        yield Problem(_NODES, text)


def _is_new(subject: Subject) -> bool:
    """True if it is a ComputeDomain that is created: its spec cannot change."""
    return subject.kind == "ComputeDomain" and subject.old is None
