"""Attributes that NVIDIA's driver published once, or will one day."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.cluster.missing import missing_reads
from policies.dra.claims.cluster.nvidia_devices import REMOVED, SINCE, is_published
from policies.dra.claims.cluster.unguarded import guarded
from policies.dra.claims.cluster.wording import lack, named, text_place, what
from policies.dra.claims.subject import CLAIMS
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.subject import Subject


@CLAIMS.rule(
    "GA223",
    "Selectors must read attributes that the release of NVIDIA's driver publishes",
    default=Severity.WARN,
    remedy="write the attribute that took its place",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/deviceinfo.go from v25.3.0 to main",
)
def removed_attributes(subject: Subject) -> Iterator[Problem]:
    """The driver dropped index, minor, parentIndex, pcieBusID and numa from one release to the next, and added others.

    Examples that read them are still about, the driver's own among them; reading what is not there stops the pod on
    every node. Where the settings name the release (spec.draDriver.version) it is certain, and the claim is refused.
    """
    release = subject.facts.driver_version()
    for found in missing_reads(subject):
        if found.reason != "release":
            continue
        removal, since = REMOVED.get(found.place), SINCE.get(found.place)
        told = f"dropped in release {removal.release}" if removal else f"publishes from release {since} on only"
        text = f"reads {what(found.place)}, which NVIDIA's driver {told}"
        if found.lacking:
            text += f"; {named(found.lacking)} {lack(found.lacking)} it"
        elif release is not UNKNOWN:
            text += f", and the settings say that {release} runs here"
        remedy = removal.remedy if removal else guarded(found)
        certain = release is not UNKNOWN and not is_published(found.place, release)
        place = text_place(found.selector, found.offset)
        yield problem(
            found.selector.path,
            f"{text}; that stops the pod on every node",
            remedy,
            severity=Severity.DENY if certain else None,
            place=place,
        )
