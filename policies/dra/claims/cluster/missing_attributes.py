"""Rules for selectors that read attributes, capacity or domains that devices lack."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.claims.cluster.missing_reads import failures, missing_reads
from policies.dra.claims.cluster.nvidia_devices import DRIVERS, REMOVED, SINCE, STANDARD, class_with, is_published
from policies.dra.claims.cluster.typed_values import mistakes
from policies.dra.claims.cluster.wording import cut, devices, format_devices, path_of, text_place, verb_of_lack, what
from policies.dra.claims.subject import CLAIMS
from policies.dra.device_groups import device_count
from policies.kubernetes.misspellings import closest
from policies.kubernetes.printable import printable
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.cluster.missing_reads import Missing
    from policies.dra.claims.subject import Subject


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
    """Reading an attribute that a device lacks is an error; one such device stops the pod on every node.

    The scheduler gives up on the pod, even where other nodes have devices that match. Which devices there are is looked
    up in the ResourceSlices, and they are asked; where these are not known, or no device of the class is there yet, it
    is what NVIDIA's driver publishes for every device. Of memory that is counted as published always: only GPUs that
    share the memory of the CPU have none.
    """
    for found in missing_reads(subject):
        if found.reason in ("optional", "unknown"):
            text, remedy = _message_and_remedy(found)
            place = text_place(found.selector, found.offset)
            yield problem(found.selector.path, text, remedy, place=place)
    for failure in failures(subject):
        if any(mistakes(failure.compiled)):
            continue  # another rule knows better what is wrong
        text = f"fails on {format_devices(failure.devices)}: {cut(failure.message)}; that stops the pod on every node"
        yield problem(failure.selector.path, text, "write an expression that is true or false for each of them")


def guarded_read(found: Missing) -> str:
    """The expression with the test before it; only the test if the expression is long or branches."""
    part, domain, name = found.place
    test = f'"{name}" in {path_of(part, domain)}'
    if found.lacking and domain in DRIVERS and all(group.first.driver != domain for group in found.lacking):
        test = f'device.driver == "{domain}"'
    text = " ".join(found.selector.text.split())
    joined = any(sign in text for sign in ("||", "?", "//"))
    return f"write {test} && before the read" if joined or len(text) > _SHORT else f"write {test} && {text}"


def _message_and_remedy(found: Missing) -> tuple[str, str]:
    """What is said, and what to do."""
    stops = "that stops the pod on every node"
    remedy = _read_remedy(found)
    of_class = f" of class {found.device_class}" if found.device_class else ""
    if found.lacking:
        if found.reason == "unknown":
            total = device_count(found.candidates)
            whose = (
                f"none of the {devices(total)}{of_class} has"
                if total > 1
                else f"{format_devices(found.candidates)} lacks"
            )
            return f"reads {what(found.place)}, which {whose}; {stops}", remedy
        return (
            f"reads {what(found.place)}, which {format_devices(found.lacking)}{of_class} {verb_of_lack(found.lacking)}; {stops}",
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


def _read_remedy(found: Missing) -> str:
    if other := _other_part(found):
        return f"write {other}"
    if found.reason != "unknown":
        return guarded_read(found)
    if (name := class_with(found.place)) and found.device_class not in ("", name):
        return f"request devices of class {name}"
    guess = _spelled_right(found)
    return f"write {guess}" if guess else f"remove it, or {guarded_read(found)}"


def _names_in_domain(found: Missing, part: str) -> set[str]:
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


def _spelled_right(found: Missing) -> str | None:
    part, domain, name = found.place
    guess = closest(name, sorted(_names_in_domain(found, part)))
    return f"{path_of(part, domain)}.{guess}" if guess else None


def _other_part(found: Missing) -> str | None:
    """The same name where it stands: people look for memory among the attributes."""
    part, domain, name = found.place
    other = "capacity" if part == "attributes" else "attributes"
    return f"{path_of(other, domain)}.{name}" if name in _names_in_domain(found, other) else None


@CLAIMS.rule(
    "GA223",
    "Selectors must read attributes that the release of NVIDIA's driver publishes",
    default=Severity.WARN,
    remedy="write the attribute that took its place",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/deviceinfo.go from v25.3.0 to main",
)
def removed_attributes(subject: Subject) -> Iterator[Problem]:
    """The driver dropped index, minor, parentIndex, pcieBusID and numa in some releases, and added others.

    Examples that read them are still about, the driver's own among them; reading what is not there stops the pod on
    every node. Where the settings name the release (spec.draDriver.version) it is certain, and the claim is refused.
    """
    release = subject.facts.driver_version()
    for found in missing_reads(subject):
        if found.reason != "release":
            continue
        removal, since = REMOVED.get(found.place), SINCE.get(found.place)
        change = f"dropped in release {removal.release}" if removal else f"publishes from release {since} on only"
        text = f"reads {what(found.place)}, which NVIDIA's driver {change}"
        if found.lacking:
            text += f"; {format_devices(found.lacking)} {verb_of_lack(found.lacking)} it"
        elif release is not UNKNOWN:
            text += f", and the settings say that {release} runs here"
        remedy = removal.remedy if removal else guarded_read(found)
        certain = release is not UNKNOWN and not is_published(found.place, release)
        place = text_place(found.selector, found.offset)
        yield problem(
            found.selector.path,
            f"{text}; that stops the pod on every node",
            remedy,
            severity=Severity.DENY if certain else None,
            place=place,
        )


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
    reported = set()
    for found in missing_reads(subject):
        part, domain, _ = found.place
        if found.reason != "domain" or (found.selector.path, part, domain) in reported:
            continue
        reported.add((found.selector.path, part, domain))
        whose = f"device of class {found.device_class}" if found.device_class else "device of the cluster"
        kind = "attributes" if part == "attributes" else "capacity"
        text = f"reads {path_of(part, printable(domain))}, and no {whose} has {kind} in this domain; that stops the pod"
        place = text_place(found.selector, found.offset)
        yield problem(found.selector.path, f"{text} on every node", _domain_remedy(found), place=place)


def _domain_remedy(found: Missing) -> str | None:
    part, domain, name = found.place
    before, slash, after = domain.partition("/")
    if slash:
        return f"write {path_of(part, before)}.{after}"
    known = {known for group in found.candidates for known in group.domains(part)}
    known |= {place[1] for kind in found.kinds for place in (*kind.always, *kind.sometimes) if place[0] == part}
    having = {place_domain for place_domain in known if _is_in_domain(found, part, place_domain, name)}
    guess = (
        next(iter(having))
        if len(having) == 1
        else closest(domain, sorted(known - {STANDARD})) or closest(domain, known)
    )
    if guess is None and len(known) == 1:
        guess = next(iter(known))
    return f"write {path_of(part, guess)}" if guess else None


def _is_in_domain(found: Missing, part: str, domain: str, name: str) -> bool:
    of_devices = any(group.has(part, domain, name) for group in found.candidates)
    return of_devices or any((part, domain, name) in {*kind.always, *kind.sometimes} for kind in found.kinds)
