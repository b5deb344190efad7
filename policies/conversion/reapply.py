"""Applying again: an update that asks a converted pod for what it was created with changes nothing.

`kubectl apply` of the manifest of a converted pod puts the extended resources back beside the claims, and the API
server refuses that: the GPUs of a pod cannot change. Where the update asks for exactly what the record says, it is
given the stored form again, and succeeds. Every other update is left as it is, for the API server to refuse: restored,
it would be called `configured` and change nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.conversion.amounts import gpu_resources
from policies.conversion.constraints import NodeConstraints
from policies.conversion.differences import differences
from policies.conversion.record import MARKS, remove_resources
from policies.decision import Severity
from policies.dra.templates import is_our_name
from policies.kubernetes.paths import lookup
from policies.kubernetes.pods import SPEC
from policies.nvidia.resources import IMPLICIT_PREFIX
from policies.patch import Editor
from policies.rules import rule

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.conversion.asked import Asked
    from policies.decision import Finding
    from policies.kubernetes.paths import FieldPath
    from policies.kubernetes.pods import Container, Pod

__all__ = ["Reapplied", "reapply"]

_CLAIMS = SPEC / "resourceClaims"


@dataclass(frozen=True, slots=True)
class Reapplied:
    """What an update of a converted pod comes to."""

    edits: Editor
    """The pod as it is to be stored."""
    findings: tuple[Finding, ...]
    restored: bool
    """Whether the update has the form from before the conversion, and was given the stored one."""


def reapply(pod: Pod, stored: Pod, asked: Asked) -> Reapplied:
    """Give an update of a converted pod its stored form again where it asks for nothing else.

    Args:
        pod: the pod as the update would have it, with requests filled in.
        stored: the converted pod as it is stored.
        asked: what the record of `stored` says.
    """
    edits = Editor(pod.document)
    speaks = _speaks_of_gpus(pod, stored)
    findings = tuple(differences(pod, stored, asked)) if speaks else ()
    restored = speaks and not findings
    if restored:
        _restore(pod, stored, asked, edits)
    return Reapplied(edits, (*findings, *_restored_marks(stored, edits, silently=restored)), restored)


def _speaks_of_gpus(pod: Pod, stored: Pod) -> bool:
    """Whether an update names GPUs, or takes what conversion wrote away; one that changes an image does neither."""
    ours, names = _claim_names(stored), {container.name for container in stored.all_containers}
    return (
        any(_added(container, before) or _lost(container, before, ours) for container, before in _pairs(pod, stored))
        or any(container.name not in names and gpu_resources(container) for container in pod.all_containers)
        or NodeConstraints.of(pod.spec) != NodeConstraints.of(stored.spec)
    )


def _restore(pod: Pod, stored: Pod, asked: Asked, edits: Editor) -> None:
    ours = _claim_names(stored)
    names = [IMPLICIT_PREFIX + device_class for device_class in dict.fromkeys(asked.classes.values())]
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
    asked.constraints.restore(edits, stored.spec)


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
