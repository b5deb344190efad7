"""Unguarded access: selectors that fail on devices which lack what they read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.cluster.missing import failures, missing_reads
from policies.dra.claims.cluster.nvidia_devices import DRIVERS, class_with
from policies.dra.claims.cluster.typed_values import mistakes
from policies.dra.claims.cluster.wording import cut, devices, lack, named, path_of, text_place, what
from policies.dra.claims.subject import CLAIMS
from policies.kubernetes.misspellings import closest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.cluster.missing import Missing
    from policies.dra.claims.subject import Subject

__all__ = ["guarded"]

_SHORT = 100
"""Characters of an expression that a remedy repeats whole."""


@CLAIMS.rule(
    "GA221",
    "Selectors must check that a device has an attribute before they read it, unless every device has it",
    default=Severity.WARN,
    remedy="ask first whether the device has it",
    source="k8s.io/dynamic-resource-allocation/structured selectorsMatch; k8s.io/kubernetes issue 136709; "
    "github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/deviceinfo.go",
)
def unguarded_reads(subject: Subject) -> Iterator[Problem]:
    """Reading an attribute that a device lacks is an error, and one such device stops the pod on every node.

    The scheduler gives up on the pod, even where other nodes have devices that match. Which devices there are is looked
    up in the ResourceSlices, and they are asked; where these are not known, or no device of the class is there yet, it
    is what NVIDIA's driver publishes for every device. Of memory that is counted as published always: only GPUs that
    share the memory of the CPU have none.
    """
    for found in missing_reads(subject):
        if found.reason in ("optional", "unknown"):
            text, remedy = _told(found)
            place = text_place(found.selector, found.offset)
            yield problem(found.selector.path, text, remedy, place=place)
    for failure in failures(subject):
        if any(mistakes(failure.compiled)):
            continue  # another rule knows better what is wrong
        text = f"fails on {named(failure.devices)}: {cut(failure.message)}; that stops the pod on every node"
        yield problem(failure.selector.path, text, "write an expression that is true or false for each of them")


def guarded(found: Missing) -> str:
    """The expression with the test before it; the test alone where that is long, or would say something else."""
    part, domain, name = found.place
    test = f'"{name}" in {path_of(part, domain)}'
    if found.lacking and domain in DRIVERS and all(group.first.driver != domain for group in found.lacking):
        test = f'device.driver == "{domain}"'
    text = " ".join(found.selector.text.split())
    joined = any(sign in text for sign in ("||", "?", "//"))
    return f"write {test} && before the read" if joined or len(text) > _SHORT else f"write {test} && {text}"


def _told(found: Missing) -> tuple[str, str]:
    """What is said, and what to do."""
    stops = "that stops the pod on every node"
    remedy = _remedy(found)
    of_class = f" of class {found.device_class}" if found.device_class else ""
    if found.lacking:
        if found.reason == "unknown":
            total = sum(len(group.devices) for group in found.candidates)
            whose = f"none of the {devices(total)}{of_class} has" if total > 1 else f"{named(found.candidates)} lacks"
            return f"reads {what(found.place)}, which {whose}; {stops}", remedy
        return (
            f"reads {what(found.place)}, which {named(found.lacking)}{of_class} {lack(found.lacking)}; {stops}",
            remedy,
        )
    types = " and ".join(kind.type for kind in found.kinds)
    if found.reason == "unknown":
        return f"reads {what(found.place)}, which NVIDIA's driver publishes for no {types} device; {stops}", remedy
    when = found.kinds[0].sometimes[found.place]
    return (
        f"reads {what(found.place)}, which NVIDIA's driver publishes only {when}; a device without it stops the pod on "
        "every node"
    ), remedy


def _remedy(found: Missing) -> str:
    if other := _other_part(found):
        return f"write {other}"
    if found.reason != "unknown":
        return guarded(found)
    if (name := class_with(found.place)) and found.device_class not in ("", name):
        return f"ask for devices of class {name}"
    guess = _misspelt(found)
    return f"write {guess}" if guess else f"remove it, or {guarded(found)}"


def _names(found: Missing, part: str) -> set[str]:
    """What devices have in the domain."""
    domain = found.place[1]
    of_devices = {
        str(name)
        for group in found.candidates
        for name in (group.sample.attributes if part == "attributes" else group.sample.capacity).get(domain, {})
    }
    of_kinds = {
        place[2] for kind in found.kinds for place in (*kind.always, *kind.sometimes) if place[:2] == (part, domain)
    }
    return of_devices | of_kinds


def _misspelt(found: Missing) -> str | None:
    part, domain, name = found.place
    guess = closest(name, sorted(_names(found, part)))
    return f"{path_of(part, domain)}.{guess}" if guess else None


def _other_part(found: Missing) -> str | None:
    """The same name where it stands: people look for memory among the attributes."""
    part, domain, name = found.place
    other = "capacity" if part == "attributes" else "attributes"
    return f"{path_of(other, domain)}.{name}" if name in _names(found, other) else None
