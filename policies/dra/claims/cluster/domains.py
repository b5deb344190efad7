"""Domains that no device has anything in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.cluster.missing import missing_reads
from policies.dra.claims.cluster.nvidia_devices import STANDARD
from policies.dra.claims.cluster.wording import path_of, text_place
from policies.dra.claims.subject import CLAIMS
from policies.kubernetes.misspellings import closest
from policies.kubernetes.printable import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.cluster.missing import Missing
    from policies.dra.claims.subject import Subject


@CLAIMS.rule(
    "GA228",
    "Selectors must read domains that devices have",
    default=Severity.WARN,
    remedy="write the domain as the ResourceSlices have it",
    source="k8s.io/dynamic-resource-allocation/cel/compile.go newStringInterfaceMapWithDefault",
)
def domains(subject: Subject) -> Iterator[Problem]:
    """A domain that a device does not have is an empty map and no error, but what is read of it is one.

    The domain of what a driver publishes is the driver's name, except for what Kubernetes has standardised. A class has
    a name of its own: mig.nvidia.com is one, and no domain.
    """
    told = set()
    for found in missing_reads(subject):
        part, domain, _ = found.place
        if found.reason != "domain" or (found.selector.path, part, domain) in told:
            continue
        told.add((found.selector.path, part, domain))
        whose = f"device of class {found.device_class}" if found.device_class else "device of the cluster"
        kind = "attributes" if part == "attributes" else "capacity"
        text = f"reads {path_of(part, printable(domain))}, and no {whose} has {kind} in this domain; that stops the pod"
        place = text_place(found.selector, found.offset)
        yield problem(found.selector.path, f"{text} on every node", _remedy(found), place=place)


def _remedy(found: Missing) -> str | None:
    part, domain, name = found.place
    before, slash, after = domain.partition("/")
    if slash:
        return f"write {path_of(part, before)}.{after}"
    known = {known for group in found.candidates for known in group.domains(part)}
    known |= {place[1] for kind in found.kinds for place in (*kind.always, *kind.sometimes) if place[0] == part}
    having = {place_domain for place_domain in known if _has(found, part, place_domain, name)}
    guess = (
        next(iter(having))
        if len(having) == 1
        else closest(domain, sorted(known - {STANDARD})) or closest(domain, known)
    )
    if guess is None and len(known) == 1:
        guess = next(iter(known))
    return f"write {path_of(part, guess)}" if guess else None


def _has(found: Missing, part: str, domain: str, name: str) -> bool:
    of_devices = any(group.has(part, domain, name) for group in found.candidates)
    return of_devices or any((part, domain, name) in {*kind.always, *kind.sometimes} for kind in found.kinds)
