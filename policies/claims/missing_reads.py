"""Selectors that read attributes, capacity or domains that devices lack."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from policies.cel import CelCompileError
from policies.claims.absence import Assumption, outcome
from policies.claims.claim_subject import CLAIMS_AND_CLASSES, cache_per_review
from policies.claims.compared_values import mistakes
from policies.claims.nvidia_attributes import (
    ADDED,
    DRIVERS,
    KINDS,
    REMOVED,
    STANDARD,
    class_with,
    is_published,
    shipped_kinds,
)
from policies.claims.selected_devices import (
    class_selectors,
    cut,
    evaluated_selectors,
    format_devices,
    new_selectors,
    path_of,
    text_place,
    what,
)
from policies.devices.published_devices import device_count
from policies.kubernetes.names import closest, printable
from policies.kubernetes.view import UNKNOWN
from policies.rules.checks import Problem
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.cel import Selector
    from policies.claims.absence import Place
    from policies.claims.claim_subject import Facts, SelectorText, Subject
    from policies.claims.nvidia_attributes import DeviceSchema
    from policies.claims.selected_devices import CompiledSelectors
    from policies.devices.published_devices import DeviceGroup
    from policies.devices.resource_claims import Subrequest


Reason = Literal["domain", "release", "optional", "unknown"]
"""The reason why it is missing: no driver publishes the domain, the release of the driver does not publish it, only some devices have
it, or the driver never heard of it."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A read that fails on some devices."""

    selector: SelectorText
    place: Place
    offset: int
    """Of the read in the expression."""
    reason: Reason
    device_class: str
    """Empty where the class itself is under review."""
    lacking: tuple[DeviceGroup, ...] = ()
    """The devices that it fails on; empty if no ResourceSlice shows devices."""
    candidates: tuple[DeviceGroup, ...] = ()
    """All devices that the selector is evaluated on."""
    kinds: tuple[DeviceSchema, ...] = ()
    """The kinds of NVIDIA's devices that it fails on, if no ResourceSlice shows devices."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A selector that fails on devices for another reason than that they lack something."""

    selector: SelectorText
    compiled: Selector
    message: str
    devices: tuple[DeviceGroup, ...]


@cache_per_review
def missing_reads(subject: Subject) -> tuple[Missing, ...]:
    """All reads of selectors that are not guarded against what devices lack."""
    found: list[Missing] = []
    for subrequest, wanted in new_selectors(subject):
        evaluated = evaluated_selectors(subject, subrequest)
        if not evaluated or not evaluated[0].groups:
            found += _on_kinds(subject.facts, wanted, subrequest)
            continue
        groups = evaluated[0].groups
        for each in evaluated:
            for place in _places(each.compiled) if each.selection.failed else ():
                lacking = tuple(group for group, _ in each.selection.failed if not group.has(*place))
                if not lacking or not subject.effort.admit_reading(len(each.text.text)):
                    continue
                error = outcome(each.compiled, Assumption(place)).error
                if error is not None:
                    reason, name = _reason(place, lacking, groups), subrequest.device_class if subrequest else ""
                    found.append(Missing(each.text, place, error, reason, name, lacking, tuple(groups)))
    return tuple(found)


def _places(selector: Selector) -> list[Place]:
    """The attributes and capacities that a selector reads by name."""
    reads = selector.reads or ()
    named = ((read.part, read.domain, read.name) for read in reads if read.domain is not None and read.name)
    return sorted(place for place in named if place[0] in ("attributes", "capacity"))


def failures(subject: Subject) -> Iterator[Failure]:
    """All selectors that fail on devices of the cluster though these have what is read."""
    for subrequest, _ in new_selectors(subject):
        for each in evaluated_selectors(subject, subrequest) or ():
            failing: dict[str, list[DeviceGroup]] = {}
            for group, message in each.selection.failed:
                if not message.startswith("no such key: "):
                    failing.setdefault(message, []).append(group)
            for message, groups in failing.items():
                yield Failure(each.text, each.compiled, message, tuple(groups))


def _reason(place: Place, lacking: Sequence[DeviceGroup], groups: Sequence[DeviceGroup]) -> Reason:
    part, domain, _ = place
    if not any(domain in group.domains(part) for group in groups):
        return "domain"
    of_nvidia = all(group.first.driver in DRIVERS for group in lacking)
    is_unpublished = not any(group.has(*place) for group in groups)
    if of_nvidia and (place in REMOVED or (place in ADDED and is_unpublished)):
        return "release"
    return "unknown" if is_unpublished else "optional"


def _on_kinds(facts: Facts, wanted: CompiledSelectors, subrequest: Subrequest | None) -> Iterator[Missing]:
    """Reads that may fail on NVIDIA's devices, if no device of the cluster is known."""
    kinds, name = tuple(kind for kind in KINDS if kind.type in _USUAL), ""
    if subrequest is not None:
        kinds, name = kinds_of(facts, subrequest.device_class), subrequest.device_class
    effort, size = facts.effort, sum(len(text.text) for text, _ in wanted)
    release = facts.driver_version()
    for number, (text, selector) in enumerate(wanted):
        for place in _places(selector):
            found: dict[Reason, list[tuple[DeviceSchema, int]]] = {}
            for kind in kinds:
                reason = _reason_of_kind(place, kind, None if release is UNKNOWN else release)
                if reason is None or (reason == "domain" and subrequest is None):
                    continue
                if not effort.admit_reading(size):
                    return
                assumption = Assumption(place, kind.known)
                # It can fail only if those before it can be true.
                if all(outcome(earlier, assumption).can_be_true for _, earlier in wanted[:number]):
                    error = outcome(selector, assumption).error
                    if error is not None:
                        found.setdefault(reason, []).append((kind, error))
            for reason, places in found.items():
                yield Missing(text, place, places[0][1], reason, name, kinds=tuple(kind for kind, _ in places))


@cache_per_review
def kinds_of(facts: Facts, name: str) -> tuple[DeviceSchema, ...]:
    """The kinds of NVIDIA's devices that a class may select; empty if they are unknown."""
    selectors = class_selectors(facts, name)
    if selectors is UNKNOWN:
        return () if facts.device_class(name) is None else shipped_kinds(name)
    usable = [selector for selector in selectors if not isinstance(selector, CelCompileError)]
    if len(usable) < len(selectors):
        return ()
    found = [
        kind for kind in KINDS if all(outcome(selector, Assumption((), kind.known)).can_be_true for selector in usable)
    ]
    return tuple(kind for kind in found if kind.type in _USUAL) or tuple(found)


def _reason_of_kind(place: Place, kind: DeviceSchema, release: str | None) -> Reason | None:
    """The reason why devices of a kind may lack a place; None if they have it."""
    if place[1] not in kind.domains and place not in kind.always:
        return "domain"
    if release is not None and not is_published(place, release):
        return "release"
    if place in kind.always or (release is not None and place in REMOVED):
        return None
    if place in REMOVED:
        return "release"
    return "optional" if place in kind.sometimes else "unknown"


_USUAL = ("gpu", "mig")
"""The kinds that do not depend on a feature gate of the driver; others count for a class that selects nothing else."""


@CLAIMS_AND_CLASSES.rule(
    "GA221",
    "Selectors must check that a device has an attribute before they read it, unless every device has it",
    default=Severity.WARN,
    remedy="ask first whether the device has it",
    source="k8s.io/dynamic-resource-allocation/structured/internal/stable/allocator_stable.go selectorsMatch; k8s.io/kubernetes "
    "issue 136709; github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/deviceinfo.go Attributes, GetDevice; "
    "cmd/gpu-kubelet-plugin/mig.go CommonAttributesMig",
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
            place = text_place(found.selector, found.offset)
            yield Problem(found.selector.path, _message(found), _remedy(found), place=place)
    for failure in failures(subject):
        if any(failure.compiled.derive(mistakes)):
            continue  # another rule knows better what is wrong
        text = f"fails on {format_devices(failure.devices)}: {cut(failure.message)}; that stops the pod on every node"
        yield Problem(failure.selector.path, text, "write an expression that is true or false for each of them")


def guarded_read(found: Missing) -> str:
    """The expression with the test before it; only the test if the expression is long or branches."""
    part, domain, name = found.place
    test = f'"{name}" in {path_of(part, domain)}'
    if found.lacking and domain in DRIVERS and all(group.first.driver != domain for group in found.lacking):
        test = f'device.driver == "{domain}"'
    text = " ".join(found.selector.text.split())
    is_long = len(text) > 100 or any(sign in text for sign in ("||", "?", "//"))
    return f"write {test} && before the read" if is_long else f"write {test} && {text}"


def _message(found: Missing) -> str:
    stops = "that stops the pod on every node"
    of_class = f" of class {found.device_class}" if found.device_class else ""
    reads = f"reads {what(found.place)}, which"
    if found.lacking and found.reason == "unknown":
        total = device_count(found.candidates)
        only = f"{format_devices(found.candidates)} lacks"
        return f"{reads} {f'none of the {total} devices{of_class} has' if total > 1 else only}; {stops}"
    if found.lacking:
        return f"{reads} {format_devices(found.lacking)}{of_class} {_lack(found.lacking)}; {stops}"
    if found.reason == "unknown":
        types = " and ".join(kind.type for kind in found.kinds)
        return f"{reads} NVIDIA's driver publishes for no {types} device; {stops}"
    when = found.kinds[0].sometimes[found.place]
    return f"{reads} NVIDIA's driver publishes only {when}; a device without it stops the pod on every node"


def _lack(groups: Sequence[DeviceGroup]) -> str:
    return "lacks" if device_count(groups) == 1 else "lack"


def _remedy(found: Missing) -> str:
    part, domain, name = found.place
    other = "capacity" if part == "attributes" else "attributes"
    # People look for memory among the attributes.
    if name in _names_in_domain(found, other):
        return f"write {path_of(other, domain)}.{name}"
    if found.reason != "unknown":
        return guarded_read(found)
    if (meant := class_with(found.place)) and found.device_class not in ("", meant):
        return f"request devices of class {meant}"
    guess = closest(name, sorted(_names_in_domain(found, part)))
    return f"write {path_of(part, domain)}.{guess}" if guess else f"remove it, or {guarded_read(found)}"


def _names_in_domain(found: Missing, part: str) -> set[str]:
    """The names that devices have in the domain."""
    domain = found.place[1]
    samples = [group.sample.attributes if part == "attributes" else group.sample.capacity for group in found.candidates]
    names = {str(name) for sample in samples for name in sample.get(domain, {})}
    places = {place for kind in found.kinds for place in (*kind.always, *kind.sometimes)}
    return names | {place[2] for place in places if place[:2] == (part, domain)}


@CLAIMS_AND_CLASSES.rule(
    "GA223",
    "Selectors must read attributes that the release of NVIDIA's driver publishes",
    default=Severity.WARN,
    remedy="write the attribute that took its place",
    source="github.com/kubernetes-sigs/dra-driver-nvidia-gpu cmd/gpu-kubelet-plugin/deviceinfo.go GetDevice, from v25.3.0 to main",
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
        removal = REMOVED.get(found.place)
        since = removal.by.since if removal else ADDED[found.place].since
        change = f"dropped in release {since}" if removal else f"publishes from release {since} on only"
        text = f"reads {what(found.place)}, which NVIDIA's driver {change}"
        if found.lacking:
            text += f"; {format_devices(found.lacking)} {_lack(found.lacking)} it"
        elif release is not UNKNOWN:
            text += f", and the settings say that {release} runs here"
        remedy = removal.remedy if removal else guarded_read(found)
        certain = release is not UNKNOWN and not is_published(found.place, release)
        severity, place = Severity.DENY if certain else None, text_place(found.selector, found.offset)
        text += "; that stops the pod on every node"
        yield Problem(found.selector.path, text, remedy, severity=severity, place=place)


@CLAIMS_AND_CLASSES.rule(
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
        yield Problem(found.selector.path, f"{text} on every node", _domain_remedy(found), place=place)


def _domain_remedy(found: Missing) -> str | None:
    part, domain, name = found.place
    before, slash, after = domain.partition("/")
    places = {place for kind in found.kinds for place in (*kind.always, *kind.sometimes) if place[0] == part}
    known = {known for group in found.candidates for known in group.domains(part)} | {place[1] for place in places}
    published = {each for each in known if any(group.has(part, each, name) for group in found.candidates)}
    having = [each for each in known if each in published or (part, each, name) in places]
    if slash and (before in known or not having):
        return f"write {path_of(part, before)}.{after}"
    guess = closest(domain, sorted(known - {STANDARD})) or closest(domain, known)
    if len(having) == 1:
        guess = having[0]
    elif guess is None and len(known) == 1:
        guess = next(iter(known))
    return f"write {path_of(part, guess)}" if guess else None
