"""The DeviceClasses that requests name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.checks import Problem, problem
from policies.decision import Severity
from policies.dra.cel import CelCompileError
from policies.dra.claims.cluster.matching import class_selectors, devices_of_class
from policies.dra.claims.cluster.wording import cut, format_devices
from policies.dra.claims.field_errors import subdomain_error
from policies.dra.claims.subject import CLAIM_OR_TEMPLATE, CLAIMS, DEVICE_CLASS
from policies.dra.deviceclasses import class_meant, extended_resource_name, newest_first, other_classes
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import FieldPath, lookup
from policies.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.dra.claims.facts import Facts
    from policies.dra.claims.subject import Subject


@CLAIMS.rule(
    "GA224",
    "The DeviceClass of a request must exist and work",
    default=Severity.WARN,
    remedy="write the name of a DeviceClass, or create it first",
    source="k8s.io/kubernetes pkg/scheduler/framework/plugins/dynamicresources PreFilter",
    kinds=CLAIM_OR_TEMPLATE,
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
            text = f'there is no DeviceClass "{name}", so the pod would stay Pending'
            yield problem(path, text, _remedy(subject.facts, name))
            continue
        selectors = class_selectors(subject.facts, name)
        for index, selector in enumerate(selectors if selectors is not UNKNOWN else ()):
            if isinstance(selector, CelCompileError):
                text = f'DeviceClass "{name}" has a selector that does not compile, number {index + 1}'
                why = cut(selector.message)
                yield problem(path, f"{text}: {why}; no pod can get its devices", f'correct DeviceClass "{name}"')
                break
        else:
            yield from _failure_problems(subject.facts, name, path)


def _failure_problems(facts: Facts, name: str, path: FieldPath) -> Iterator[Problem]:
    """A class whose selectors fail on a device; its claims stop their pods on every node."""
    seen = devices_of_class(facts, name)
    if seen is None or not seen[1].failed:
        return
    groups = [group for group, _ in seen[1].failed]
    text = f'DeviceClass "{name}" has a selector that fails on {format_devices(groups)}: {cut(seen[1].failed[0][1])}'
    yield problem(path, f"{text}; that stops the pod on every node", f'correct DeviceClass "{name}"')


def _remedy(facts: Facts, name: str) -> str | None:
    classes = facts.device_classes()
    if classes is UNKNOWN or not classes:
        return None
    names = [known for known in map(name_of, classes) if known]
    guess = class_meant(name, names)
    return f'write "{guess}"' if guess else other_classes(names)


_EXTENDED_RESOURCE = FieldPath(["spec", "extendedResourceName"])


@CLAIMS.rule(
    "GA233",
    "An extended resource should stand for one DeviceClass",
    default=Severity.WARN,
    remedy="remove it, unless this class is to replace the other",
    source="k8s.io/dynamic-resource-allocation deviceclass/extendedresourcecache updateResourceName2class; KEP-5004",
    kinds=DEVICE_CLASS,
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
    listed = subject.facts.device_classes()
    known = subject.facts.view.objects_under_review("DeviceClass") if listed is UNKNOWN else listed
    others = [each for each in known if name_of(each) != subject.name and extended_resource_name(each) == resource]
    if not others:
        return
    stored = subject.facts.device_class(subject.name)
    own = stored if isinstance(stored, dict) else subject.object
    ranked = newest_first([own, *others])
    newest = next(each for each in ranked if each is not own)
    other = name_of(newest)
    if not any(lookup(each, ("metadata", "creationTimestamp")) for each in (own, newest)):
        text = (
            f'DeviceClass "{other}" stands for {resource} too, and pods get devices of the class that is created last'
        )
    elif ranked[0] is own:
        text = (
            f'takes {resource} over from DeviceClass "{other}", because the newest class counts: pods that request it and '
            "are scheduled from now on get devices of this class"
        )
    else:
        text = f'has no effect while DeviceClass "{other}" stands for {resource} too, because that is newer'
    yield problem(_EXTENDED_RESOURCE, text)
