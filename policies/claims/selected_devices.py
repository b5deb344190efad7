"""The DeviceClasses that requests name, and the devices that selectors of a class and a request match."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from policies.cel import CelCompileError
from policies.claims.claim_subject import CLAIMS, DEVICE_CLASSES, cache_per_review
from policies.claims.field_errors import subdomain_error
from policies.devices.deviceclasses import class_remedy, extended_resource_name, newest_first
from policies.devices.effort import DeviceSelection, select_devices
from policies.devices.published_devices import device_count, published_devices
from policies.devices.resource_claims import MOST_ENTRIES
from policies.kubernetes.names import printable
from policies.kubernetes.objects import FieldPath, lookup, name_of
from policies.kubernetes.view import UNKNOWN, Unknown
from policies.rules.checks import Problem
from policies.rules.decision import Place as TextPlace
from policies.rules.decision import Severity

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.cel import Selector
    from policies.claims.absence import Place
    from policies.claims.claim_subject import Facts, SelectorText, Subject
    from policies.devices.published_devices import DeviceGroup, PublishedDevices
    from policies.devices.resource_claims import Subrequest

    CompiledSelectors = Sequence[tuple[SelectorText, Selector]]
    """Selectors as they are written, each with its compiled form."""


_LONGEST = 80


def format_devices(groups: Sequence[DeviceGroup]) -> str:
    """Some devices: the first by name, the others by number."""
    count = device_count(groups)
    first = groups[0].first.label
    return first if count == 1 else f"{first} and {count - 1} more"


def what(place: Place) -> str:
    """An attribute or capacity, by the name that slices have it under."""
    part, domain, name = place
    return f"{'attribute' if part == 'attributes' else 'capacity'} {printable(domain)}/{printable(name)}"


def path_of(part: str, domain: str) -> str:
    """The map of a domain, as a selector writes it."""
    return f'device.{part}["{domain}"]'


def cut(text: str) -> str:
    """An expression on one line, cut where it is long."""
    line = " ".join(printable(text).split())
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."


def text_place(selector: SelectorText, offset: int) -> TextPlace:
    """The place in an expression, by line and column."""
    before = selector.text[:offset]
    return TextPlace(selector.path, before.count("\n") + 1, offset - (before.rfind("\n") + 1) + 1)


class EvaluatedSelector(NamedTuple):
    """A selector of a request, evaluated on the devices that those before it match."""

    text: SelectorText
    compiled: Selector
    groups: Sequence[DeviceGroup]
    """The devices that it is evaluated on."""
    selection: DeviceSelection


@cache_per_review
def new_selectors(subject: Subject) -> Sequence[tuple[Subrequest | None, CompiledSelectors]]:
    """The new selectors of each request, or of the class under review, compiled.

    Skips requests without selectors, requests with a selector that does not compile, which another rule reports, and requests
    whose selectors are too much work.
    """
    if not subject.has_new_selectors:
        return ()
    owners = (None,) if subject.kind == "DeviceClass" else subject.reviewed_subrequests
    return [(owner, wanted) for owner in owners if (wanted := compiled_selectors(subject, owner))]


@cache_per_review
def compiled_selectors(subject: Subject, subrequest: Subrequest | None) -> CompiledSelectors | None:
    """The selectors of a request, or of the class under review, compiled.

    None if one of them does not compile, which another rule reports, or if the object has too many.
    """
    effort = subject.effort
    texts = subject.selectors_of[subrequest][:MOST_ENTRIES]
    path = subject.devices_path if subrequest is None else subrequest.path
    if not effort.admit_own(path, [each.text for each in texts]):
        return None
    outcomes = [(each, effort.compile(each.text)) for each in texts]
    found = [(each, selector) for each, selector in outcomes if not isinstance(selector, CelCompileError)]
    return found if len(found) == len(texts) else None


@cache_per_review
def class_selectors(facts: Facts, name: str) -> list[Selector | CelCompileError] | Unknown:
    """The selectors of a class; unknown if the class is unknown, does not exist or has too many of them."""
    texts = facts.class_selectors(name)
    if texts is None or not facts.effort.admit_class(name, texts[:MOST_ENTRIES]):
        return UNKNOWN
    return [facts.effort.compile(text) for text in texts[:MOST_ENTRIES]]


@cache_per_review
def devices_of_class(facts: Facts, name: str) -> tuple[PublishedDevices, DeviceSelection] | None:
    """The devices of a class; None if slices or the class are unknown, or a selector does not compile."""
    known = facts.view.derive(published_devices)
    selectors = class_selectors(facts, name)
    if known is UNKNOWN or selectors is UNKNOWN:
        return None
    usable = [selector for selector in selectors if not isinstance(selector, CelCompileError)]
    return (known, select_devices(known, known.groups, usable, facts.effort)) if len(usable) == len(selectors) else None


@cache_per_review
def evaluated_selectors(subject: Subject, subrequest: Subrequest | None) -> Sequence[EvaluatedSelector] | None:
    """The selectors of a request, or of the class under review, evaluated; None if something is unknown."""
    wanted = compiled_selectors(subject, subrequest)
    if subrequest is None:
        known = subject.facts.view.derive(published_devices)
        groups: Sequence[DeviceGroup] = () if known is UNKNOWN else known.groups
    elif (seen := devices_of_class(subject.facts, subrequest.device_class)) is not None:
        known, groups = seen[0], seen[1].matched
    else:
        return None
    if wanted is None or known is UNKNOWN:
        return None
    found: list[EvaluatedSelector] = []
    for text, selector in wanted:
        selection = select_devices(known, groups, [selector], subject.effort)
        found.append(EvaluatedSelector(text, selector, groups, selection))
        groups = selection.matched
    return found


def devices_for_request(subject: Subject, subrequest: Subrequest) -> DeviceSelection | None:
    """The devices of its class that a request selects; None if class, slices or selectors are unknown."""
    seen, evaluated = devices_of_class(subject.facts, subrequest.device_class), evaluated_selectors(subject, subrequest)
    if seen is None or evaluated is None:
        return None
    return DeviceSelection(
        evaluated[-1].selection.matched if evaluated else seen[1].matched,
        [failure for each in evaluated for failure in each.selection.failed],
        all(each.selection.complete for each in evaluated),
    )


@CLAIMS.rule(
    "GA224",
    "The DeviceClass of a request must exist and work",
    default=Severity.WARN,
    remedy="write the name of a DeviceClass, or create it first",
    source="k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources PreFilter",
)
def existing_classes(subject: Subject) -> Iterator[Problem]:
    """The API server accepts any class; the scheduler leaves the pod Pending until the class exists.

    A class whose selector does not compile fails every pod that requests it; that happens to a class that was stored by
    another version of Kubernetes. So does a class whose selector fails on a device, by reading what the device lacks.
    """
    if not subject.has_new_selectors:
        return
    for subrequest in subject.subrequests:
        path, name = subrequest.path / "deviceClassName", subrequest.device_class
        if not name or subdomain_error(name):
            continue
        if subject.facts.device_class(name) is None:
            classes, remedy = subject.facts.view.known_objects("DeviceClass"), None
            if classes:
                names = [known for known in map(name_of, classes) if known]
                remedy = class_remedy(name, names)
            text = f'there is no DeviceClass "{name}", so the pod would stay Pending'
            yield Problem(path, text, remedy)
            continue
        selectors = class_selectors(subject.facts, name)
        for index, selector in enumerate(selectors if selectors is not UNKNOWN else ()):
            if isinstance(selector, CelCompileError):
                text = f'DeviceClass "{name}" has a selector that does not compile, number {index + 1}'
                why = cut(selector.message)
                yield Problem(path, f"{text}: {why}; no pod can get its devices", f'correct DeviceClass "{name}"')
                break
        else:
            seen = devices_of_class(subject.facts, name)
            if seen is not None and seen[1].failed:
                where, why = format_devices([group for group, _ in seen[1].failed]), cut(seen[1].failed[0][1])
                text = f'DeviceClass "{name}" has a selector that fails on {where}: {why}'
                yield Problem(path, f"{text}; that stops the pod on every node", f'correct DeviceClass "{name}"')


@DEVICE_CLASSES.rule(
    "GA233",
    "An extended resource should stand for one DeviceClass",
    default=Severity.WARN,
    remedy="remove it, unless this class is to replace the other",
    source="k8s.io/dynamic-resource-allocation deviceclass/extendedresourcecache updateResourceName2class; KEP-5004",
)
def single_extended_resources(subject: Subject) -> Iterator[Problem]:
    """Several DeviceClasses can have one `extendedResourceName`, and the newest of them counts.

    So a second class with `nvidia.com/gpu` takes over every pod that requests it and is scheduled from then on by DRA.
    Its selectors decide which devices these pods get: if they match none, the pods stay Pending.
    """
    resource = extended_resource_name(subject.object)
    if subject.kind != "DeviceClass" or not resource:
        return
    if subject.old is not None and extended_resource_name(subject.old) == resource:
        return
    known = subject.facts.view.known_or_reviewed("DeviceClass")
    others = [each for each in known if name_of(each) != subject.name and extended_resource_name(each) == resource]
    if not others:
        return
    stored = subject.facts.device_class(subject.name)
    own = stored if isinstance(stored, dict) else subject.object
    ranked = newest_first([own, *others])
    newest = next(each for each in ranked if each is not own)
    other = name_of(newest)
    if not any(lookup(each, ("metadata", "creationTimestamp")) for each in (own, newest)):
        text = f'DeviceClass "{other}" stands for {resource} too'
        text += ", and pods get devices of the class that is created last"
    elif ranked[0] is own:
        text = f'takes {resource} over from DeviceClass "{other}", because the newest class counts: pods that request it and '
        text += "are scheduled from now on get devices of this class"
    else:
        text = f'has no effect while DeviceClass "{other}" stands for {resource} too, because that is newer'
    yield Problem(FieldPath(["spec", "extendedResourceName"]), text)
