"""Updates of converted pods: a manifest that is applied again keeps its pod converted."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any

from policies.conversion.constraints import NodeConstraints
from policies.conversion.converted_pods import MARKS, remove_resources
from policies.conversion.gpu_amounts import gpu_resources, limit_path, read_amounts
from policies.decision import Severity
from policies.dra.templates import is_our_name
from policies.kubernetes.nodes import REQUIRED
from policies.kubernetes.paths import FieldPath, lookup
from policies.kubernetes.pods import SPEC
from policies.kubernetes.printable import shown
from policies.metadata_keys import PREFIX
from policies.nvidia.resources import IMPLICIT_PREFIX
from policies.nvidia.wishes import WORDS, Wish, WishError
from policies.patch import Editor
from policies.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.conversion.record import ConversionRecord
    from policies.decision import Finding
    from policies.kubernetes.pods import Container, Pod


__all__ = ["Reapplied", "differences", "reapply"]

_CLAIMS = SPEC / "resourceClaims"


@dataclass(frozen=True, slots=True)
class Reapplied:
    """What an update of a converted pod comes to."""

    edits: Editor
    """The pod as it is to be stored."""
    findings: tuple[Finding, ...]
    restored: bool
    """Whether the update has the form from before the conversion, and was given the stored one."""


def reapply(pod: Pod, stored: Pod, record: ConversionRecord) -> Reapplied:
    """Give an update of a converted pod its stored form again where it asks for nothing else.

    Args:
        pod: the pod as the update would have it, with requests filled in.
        stored: the converted pod as it is stored.
        record: what the record of `stored` says.
    """
    edits = Editor(pod.document)
    speaks = _speaks_of_gpus(pod, stored)
    findings = tuple(differences(pod, stored, record)) if speaks else ()
    restored = speaks and not findings
    if restored:
        _restore(pod, stored, record, edits)
    return Reapplied(edits, (*findings, *_restored_marks(stored, edits, silently=restored)), restored)


def _speaks_of_gpus(pod: Pod, stored: Pod) -> bool:
    """Whether an update names GPUs, or takes what conversion wrote away; one that changes an image does neither."""
    ours, names = _claim_names(stored), {container.name for container in stored.all_containers}
    return (
        any(_added(container, before) or _lost(container, before, ours) for container, before in _pairs(pod, stored))
        or any(container.name not in names and gpu_resources(container) for container in pod.all_containers)
        or NodeConstraints.of(pod.spec) != NodeConstraints.of(stored.spec)
    )


def _restore(pod: Pod, stored: Pod, record: ConversionRecord, edits: Editor) -> None:
    ours = _claim_names(stored)
    names = [IMPLICIT_PREFIX + device_class for device_class in dict.fromkeys(record.classes.values())]
    for container, before in _pairs(pod, stored):
        resources = container.path / "resources"
        for section, there, wanted in (
            ("limits", container.limits, before.limits),
            ("requests", container.requests, before.requests),
        ):
            for name in names:
                if name in wanted and name not in there:
                    edits.add(resources / section / name, wanted[name])
        _give_back(edits, resources / "claims", list(before.claims), ours)
        remove_resources(container, _added(container, before), edits)
    _give_back(edits, _CLAIMS, stored.resource_claims, ours)
    record.constraints.restore(edits, stored.spec)


def _pairs(pod: Pod, stored: Pod) -> Iterator[tuple[Container, Container]]:
    """The containers of an update, each with what it is now; the API server lets nobody add or remove one."""
    before = {container.name: container for container in stored.all_containers}
    return ((each, before[each.name]) for each in pod.all_containers if each.name in before)


def _added(container: Container, before: Container) -> list[str]:
    there = gpu_resources(before)
    return [resource for resource in gpu_resources(container) if resource not in there]


def _lost(container: Container, before: Container, ours: frozenset[str]) -> bool:
    """Whether a container no longer uses the claim that conversion gave it."""
    used = {(claim.get("name"), claim.get("request")) for claim in container.claims}
    return any(
        claim.get("name") in ours and (claim.get("name"), claim.get("request")) not in used for claim in before.claims
    )


def _claim_names(stored: Pod) -> frozenset[str]:
    """What the pod calls the claim that conversion gave it."""
    return frozenset(
        claim.get("name", "") for claim in stored.resource_claims if is_our_name(claim.get("resourceClaimTemplateName"))
    )


def _give_back(edits: Editor, path: FieldPath, stored: list[dict[str, Any]], ours: frozenset[str]) -> None:
    """Set a list to what is stored where just the entries of ours are missing; kubectl replaces it as a whole."""
    there = lookup(edits.document, path)
    if (there or []) != [entry for entry in stored if entry.get("name") not in ours] or (there or []) == stored:
        return
    if there is None:
        edits.add(path, stored)
    else:
        edits.replace(path, stored)


MARKED = rule(
    "GA329",
    "The marks of a converted pod must not change",
    default=Severity.WARN,
    why="""
    The annotation gpu-admission.io/converted tells what a pod asked for before it was converted, and the label
    gpu-admission.io/managed that it was. Without them nobody could tell that a manifest that is applied again is the one
    that was converted. An update of the pod's spec that changes them is stored without that change.""",
    remedy="leave the marks out of what you apply",
    source="docs/conversion.md",
)


def _restored_marks(stored: Pod, edits: Editor, *, silently: bool) -> Iterator[Finding]:
    """Keep the marks as they are stored; to say so is left out where whoever asks has never seen them."""
    for path in MARKS:
        there, wanted = lookup(edits.document, path), lookup(stored.document, path)
        if wanted is None or there == wanted:
            continue
        if there is None:
            edits.add(path, wanted)
        else:
            edits.replace(path, wanted)
        if there is not None or not silently:
            yield MARKED.finding(path, "stays as it is stored; it tells what the pod was converted from")


_MOST = 10
"""Differences that are told of a pod."""
_ANNOTATIONS = FieldPath(["metadata", "annotations"])
_SELECTOR = SPEC / "nodeSelector"
_AFFINITY = FieldPath([*SPEC, *REQUIRED, "nodeSelectorTerms"])
_REFUSED = "and the GPUs of a pod cannot change"


def differences(pod: Pod, stored: Pod, record: ConversionRecord) -> Iterator[Finding]:
    """What a pod asks for otherwise than its record says; at most ten findings."""
    return islice(_differences(pod, stored, record), _MOST)


def _differences(pod: Pod, stored: Pod, record: ConversionRecord) -> Iterator[Finding]:
    yield from _of_amounts(pod, record)
    yield from _of_selectors(pod, stored, record)
    yield from _of_wishes(pod, stored, record)


IMMUTABLE = rule(
    "GA328",
    "The GPUs of a pod must not change after it was created",
    default=Severity.WARN,
    why="""
    Kubernetes lets nobody change the GPUs of a pod after its creation. Applying the manifest of a converted pod again
    asks for nothing new, and succeeds: the pod stays as it was converted. An update that asks for anything else is left
    as it is, so that the API server refuses it; restoring it too would say "configured" and change nothing.""",
    remedy="delete the pod and create it again",
    source="k8s.io/kubernetes pkg/apis/core/validation ValidatePodUpdate",
)


def _of_amounts(pod: Pod, record: ConversionRecord) -> Iterator[Finding]:
    amounts = read_amounts(pod)
    for found in amounts.findings:
        yield IMMUTABLE.finding(found.path, f"{found.message}, {_REFUSED}")
    if amounts.findings:
        return
    recorded = {(ask.name, ask.kind): ask.resources for ask in record.containers}
    for container in pod.all_containers:
        before = recorded.pop((container.name, container.kind), {})
        now = amounts.of.get(container.name, {})
        for resource in sorted({*now, *before}):
            if now.get(resource, 0) != before.get(resource, 0):
                path = limit_path(container, resource) if resource in now else container.path / "resources" / "limits"
                yield IMMUTABLE.finding(path, _of_amount(resource, now, before))
    for (name, _), resources in recorded.items():
        if any(resources.values()):
            yield IMMUTABLE.finding(SPEC / "containers", f'lack container "{name}", which has GPUs, {_REFUSED}')


def _of_amount(resource: str, now: Mapping[str, int], before: Mapping[str, int]) -> str:
    is_now = f"is {now[resource]}" if resource in now else f"lacks {resource}"
    was = f"the pod was created with {before.get(resource) or 'none'}"
    return f"{is_now} and {was}, {_REFUSED}"


def _of_selectors(pod: Pod, stored: Pod, record: ConversionRecord) -> Iterator[Finding]:
    """Conditions on GPU labels that are neither those of the record nor such as were added to the pod since."""
    now, there, before = NodeConstraints.of(pod.spec), NodeConstraints.of(stored.spec), record.constraints
    expected = {**there.node_selector, **before.node_selector}
    for key in sorted({*now.node_selector, *expected}):
        if now.node_selector.get(key) != expected.get(key):
            is_now = f"is {shown(now.node_selector[key])}" if key in now.node_selector else "is missing"
            was = shown(expected[key]) if key in expected else "none"
            text = f"{is_now} and the pod was created with {was}, {_REFUSED}"
            yield IMMUTABLE.finding(_SELECTOR / key, text)
    if now.terms != (there.terms if before.terms is None else before.terms):
        text = f"selects GPUs otherwise than the pod did when it was created, {_REFUSED}"
        yield IMMUTABLE.finding(_AFFINITY, text)


def _of_wishes(pod: Pod, stored: Pod, record: ConversionRecord) -> Iterator[Finding]:
    """Wishes of the pod itself that are not those of the record; a default that has changed since is none of them."""
    recorded = record.wish.words()
    for word in WORDS:
        name = PREFIX + word
        path, now, before = _ANNOTATIONS / name, pod.annotations.get(name), stored.annotations.get(name)
        was = shown(recorded[word]) if word in recorded else "no such wish"
        if now is None:
            if before is not None and word in recorded:
                yield IMMUTABLE.finding(path, f"is missing and the pod was created with {was}, {_REFUSED}")
        elif (wished := _normal(word, now)) != recorded.get(word) and (wished is not None or now != before):
            yield IMMUTABLE.finding(path, f"is {shown(now)} and the pod was created with {was}, {_REFUSED}")


def _normal(word: str, text: str) -> str | None:
    """A wish as records write it; None where it says nothing."""
    try:
        return Wish.of({word: text}).words().get(word)
    except WishError:
        return None
