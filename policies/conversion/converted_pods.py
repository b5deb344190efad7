"""Converted pods: recognised by a record that the pod confirms, and kept converted by updates."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from policies.conversion.constraints import ConstraintError, NodeConstraints
from policies.conversion.device_layout import TooManyDevicesError
from policies.conversion.gpu_amounts import gpu_resources, limit_path, read_amounts
from policies.conversion.record import ConversionRecord
from policies.conversion.templates import is_our_name
from policies.kubernetes.names import MANAGED, PREFIX, RECORD, shown
from policies.kubernetes.nodes import REQUIRED
from policies.kubernetes.objects import FieldPath, lookup
from policies.kubernetes.pods import SPEC
from policies.kubernetes.quantities import quantity_or_none
from policies.nvidia.identifiers import GKE_LABELS
from policies.nvidia.mig import IMPLICIT_PREFIX
from policies.nvidia.wishes import WORDS, Wish, WishError
from policies.rules.checks import PODS, Problem, RulesOn
from policies.rules.decision import Severity
from policies.rules.patch import Editor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.conversion.gpu_amounts import Amounts
    from policies.kubernetes.pods import Container, Pod
    from policies.rules.decision import Finding


RECORD_PATH = FieldPath(["metadata", "annotations", RECORD])
MARKS = (RECORD_PATH, FieldPath(["metadata", "labels", MANAGED]))
"""The paths of the marks of a converted pod."""


def mark(pod: Pod, record: ConversionRecord, edits: Editor) -> None:
    """Record on the pod what it requested, and mark it as converted."""
    for path, value in zip(MARKS, (record.annotation, "true"), strict=True):
        before = lookup(pod.document, path)
        if before is None:
            edits.add(path, value)
        elif before != value:
            edits.replace(path, value)


def conversion_record(pod: Pod) -> ConversionRecord | None:
    """The record of a converted pod; None if the pod is not converted, also if it has marks.

    The record must lead to the very template that the pod refers to, and each container must use the requests that
    the record gives it. Each container of a renamed pod must request exactly as many devices by the new names.
    """
    record = ConversionRecord.parse(pod.annotations[RECORD]) if RECORD in pod.annotations else None
    if record is None:
        return None
    return record if (_is_renamed(pod, record) if record.classes else _refers(pod, record)) else None


def _refers(pod: Pod, record: ConversionRecord) -> bool:
    try:
        claim = record.claim
    except (ConstraintError, TooManyDevicesError):
        return False
    names = {each.get("name") for each in pod.resource_claims if each.get("resourceClaimTemplateName") == claim.name}
    uses = {
        (container.name, each.get("request"))
        for container in pod.all_containers
        for each in container.claims
        if each.get("name") in names
    }
    needed = {(name, each) for piece in claim.pieces for name in piece.containers for each in piece.requests}
    return bool(needed) and needed <= uses


def _is_renamed(pod: Pod, record: ConversionRecord) -> bool:
    containers = {container.name: container for container in pod.all_containers}
    return all(
        each.name in containers
        and _amount(containers[each.name].limits, record.classes[resource])
        == _amount(containers[each.name].requests, record.classes[resource])
        == count
        for each in record.containers
        for resource, count in each.resources.items()
        if count
    )


def _amount(amounts: Mapping[str, Any], device_class: str) -> int | None:
    number = quantity_or_none(amounts.get(IMPLICIT_PREFIX + device_class))
    return int(number) if number is not None and number.denominator == 1 else None


def remove_readded(pod: Pod, record: ConversionRecord) -> tuple[Editor, tuple[Finding, ...]]:
    """Remove from a converted pod GPU resources that were added again in the recorded amount."""
    edits = Editor(pod.document)
    amounts = read_amounts(pod)
    if findings := amounts.findings or tuple(equal_to_the_converted(pod, record, amounts)):
        return edits, findings
    for container in pod.all_containers:
        remove_resources(container, [*gpu_resources(container), *record.foreign], edits)
    return edits, ()


@PODS.rule(
    "GA319",
    "A resource that is added after conversion must equal the converted request",
    remedy="write the GPUs of every container into the pod (0 where it needs none), or remove the LimitRange's default",
    source="k8s.io/apiserver admission order: LimitRanger runs again after mutating webhooks",
)
def equal_to_the_converted(pod: Pod, record: ConversionRecord, amounts: Amounts) -> Iterator[Problem]:
    """A GPU resource can be put back into a converted pod.

    A LimitRange with a default for GPUs does so, or another webhook. The same amount in the same container is removed again; another amount, or a container that has no request in
    the claim, is a second wish that contradicts the first.
    """
    recorded = {each.name: each.resources for each in record.containers}
    for container in pod.all_containers:
        for resource in gpu_resources(container):
            count = amounts.of[container.name][resource]
            before = recorded.get(container.name, {}).get(resource)
            # A recorded 0 was written to prevent a LimitRange's default; removing it let the default in.
            if count and before not in (0, count):
                was = "without it" if before is None else f"with {before}"
                text = f"is {count}, added after the pod was converted {was}"
                yield Problem(limit_path(container, resource), text)


def remove_resources(container: Container, resources: list[str], edits: Editor) -> None:
    """Remove resources from a container's limits and requests, and the maps that are empty then."""
    if not resources:
        return
    path = container.path / "resources"
    for section in ("limits", "requests"):
        written = lookup(edits.document, path) or {}
        present = written.get(section) or {}
        named = [resource for resource in resources if resource in present]
        if not named:
            continue
        if len(named) < len(present):
            for resource in named:
                edits.remove(path / section / resource)
        elif len(written) > 1:
            edits.remove(path / section)
        else:
            edits.remove(path)


_CLAIMS = SPEC / "resourceClaims"


@dataclass(frozen=True, slots=True)
class Reapplied:
    """The result of an update of a converted pod."""

    edits: Editor
    """The pod that is to be stored."""
    findings: tuple[Finding, ...]
    restored: bool
    """True if the update has the form from before the conversion, and was replaced by the stored form."""


def reapply(pod: Pod, stored: Pod, record: ConversionRecord) -> Reapplied:
    """Restore the stored form of a converted pod in an update that requests the same GPUs.

    Args:
        pod: The pod of the update, with requests filled in.
        stored: The converted pod as it is stored.
        record: The record of `stored`.
    """
    edits = Editor(pod.document)
    changes_gpus = _changes_gpus(pod, stored)
    findings = tuple(unchanged_gpus(pod, stored, record)) if changes_gpus else ()
    restored = changes_gpus and not findings
    if restored:
        _restore(pod, stored, record, edits)
    marked = tuple(unchanged_marks(pod, stored, is_restored=restored))
    for path in MARKS:
        there, wanted = lookup(edits.document, path), lookup(stored.document, path)
        if wanted is not None and there is None:
            edits.add(path, wanted)
        elif wanted is not None and there != wanted:
            edits.replace(path, wanted)
    return Reapplied(edits, (*findings, *marked), restored)


def _changes_gpus(pod: Pod, stored: Pod) -> bool:
    """True if an update names GPUs, or removes what conversion wrote.

    An update of an image, for example, does neither.
    """
    ours, names = _claim_names(stored), {container.name for container in stored.all_containers}
    return (
        any(
            _added_resources(container, before) or _drops_claim(container, before, ours)
            for container, before in _pairs(pod, stored)
        )
        or any(container.name not in names and gpu_resources(container) for container in pod.all_containers)
        or NodeConstraints.of(pod.spec, GKE_LABELS) != NodeConstraints.of(stored.spec, GKE_LABELS)
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
        remove_resources(container, [*_added_resources(container, before), *record.foreign], edits)
    _give_back(edits, _CLAIMS, stored.resource_claims, ours)
    record.constraints.restore(edits, stored.spec)


def _pairs(pod: Pod, stored: Pod) -> Iterator[tuple[Container, Container]]:
    """The containers of an update, each with its stored form; updates cannot add or remove containers."""
    before = {container.name: container for container in stored.all_containers}
    return ((each, before[each.name]) for each in pod.all_containers if each.name in before)


def _added_resources(container: Container, before: Container) -> list[str]:
    there = gpu_resources(before)
    return [resource for resource in gpu_resources(container) if resource not in there]


def _drops_claim(container: Container, before: Container, ours: frozenset[str]) -> bool:
    """True if a container no longer uses the claim that conversion gave it."""
    used = {(claim.get("name"), claim.get("request")) for claim in container.claims}
    return any(
        claim.get("name") in ours and (claim.get("name"), claim.get("request")) not in used for claim in before.claims
    )


def _claim_names(stored: Pod) -> frozenset[str]:
    """The names in the pod of the claim that conversion gave it."""
    return frozenset(
        claim.get("name", "") for claim in stored.resource_claims if is_our_name(claim.get("resourceClaimTemplateName"))
    )


def _give_back(edits: Editor, path: FieldPath, stored: list[dict[str, Any]], ours: frozenset[str]) -> None:
    """Restore a list in which only our entries are missing, because kubectl replaces the whole list."""
    there = lookup(edits.document, path)
    if (there or []) != [entry for entry in stored if entry.get("name") not in ours] or (there or []) == stored:
        return
    if there is None:
        edits.add(path, stored)
    else:
        edits.replace(path, stored)


@RulesOn("Pod").rule(
    "GA329",
    "The marks of a converted pod must not change",
    default=Severity.WARN,
    remedy="leave the marks out of what you apply",
    source="docs/conversion.md",
)
def unchanged_marks(pod: Pod, stored: Pod, *, is_restored: bool) -> Iterator[Problem]:
    """The annotation gpu-admission.io/converted records what a pod requested before it was converted.

    The label gpu-admission.io/managed records that it was. They show that a manifest that is applied again is the
    one that was converted. An update of the pod's spec that changes them is stored without that change.
    """
    for path in MARKS:
        there, wanted = lookup(pod.document, path), lookup(stored.document, path)
        # The user of a restored pod never saw the marks.
        if wanted is not None and there != wanted and not (there is None and is_restored):
            yield Problem(path, "stays as it is stored; it records what the pod was converted from")


_MOST = 10
"""The most differences that are reported for a pod."""
_ANNOTATIONS = FieldPath(["metadata", "annotations"])
_SELECTOR = SPEC / "nodeSelector"
_AFFINITY = FieldPath([*SPEC, *REQUIRED, "nodeSelectorTerms"])
_REFUSED = "and the GPUs of a pod cannot change"


@RulesOn("Pod").rule(
    "GA328",
    "The GPUs of a pod must not change after it was created",
    default=Severity.WARN,
    remedy="delete the pod and create it again",
    source="k8s.io/kubernetes pkg/apis/core/validation ValidatePodUpdate",
)
def unchanged_gpus(pod: Pod, stored: Pod, record: ConversionRecord) -> Iterator[Problem]:
    """The GPUs of a pod cannot change after its creation.

    Applying the manifest of a converted pod again requests nothing new, and succeeds: the pod stays as it was
    converted. An update that requests anything else is left as it is, so that the API server refuses it; restoring
    it too would say "configured" and change nothing.
    """
    differences = chain(
        _amount_differences(pod, record),
        _selector_differences(pod, stored, record),
        _wish_differences(pod, stored, record),
    )
    yield from islice(differences, _MOST)


def _amount_differences(pod: Pod, record: ConversionRecord) -> Iterator[Problem]:
    amounts = read_amounts(pod)
    for found in amounts.findings:
        yield Problem(found.path, f"{found.message}, {_REFUSED}")
    if amounts.findings:
        return
    recorded = {(each.name, each.kind): each.resources for each in record.containers}
    for container in pod.all_containers:
        before = recorded.pop((container.name, container.kind), {})
        now = amounts.of.get(container.name, {})
        for resource in sorted({*now, *before}):
            if now.get(resource, 0) != before.get(resource, 0):
                path = limit_path(container, resource) if resource in now else container.path / "resources" / "limits"
                is_now = f"is {now[resource]}" if resource in now else f"lacks {resource}"
                text = f"{is_now} and the pod was created with {before.get(resource) or 'none'}, {_REFUSED}"
                yield Problem(path, text)
        yield from _foreign_differences(container, record, has_gpu=any(now.values()))
    for (name, _), resources in recorded.items():
        if any(resources.values()):
            yield Problem(SPEC / "containers", f'container "{name}", which has GPUs, is missing, {_REFUSED}')


def _foreign_differences(container: Container, record: ConversionRecord, *, has_gpu: bool) -> Iterator[Problem]:
    """Problems with resources of another system that differ from those from which the wish was read."""
    named = {**container.requests, **container.limits}
    for resource, count in record.foreign.items():
        now = quantity_or_none(named[resource]) if resource in named else 0
        if now != (count if has_gpu else 0):
            is_now = f"is {shown(named[resource])}" if resource in named else f"lacks {resource}"
            path = limit_path(container, resource) if resource in named else container.path / "resources" / "limits"
            yield Problem(path, f"{is_now} and the pod was created with {count if has_gpu else 'none'}, {_REFUSED}")


def _selector_differences(pod: Pod, stored: Pod, record: ConversionRecord) -> Iterator[Problem]:
    """Problems with conditions on GPU labels that neither the record nor the stored pod has."""
    now, there = (NodeConstraints.of(each.spec, GKE_LABELS) for each in (pod, stored))
    before = record.constraints
    expected = {**there.node_selector, **before.node_selector}
    for key in sorted({*now.node_selector, *expected}):
        if now.node_selector.get(key) != expected.get(key):
            is_now = f"is {shown(now.node_selector[key])}" if key in now.node_selector else "is missing"
            was = shown(expected[key]) if key in expected else "none"
            text = f"{is_now} and the pod was created with {was}, {_REFUSED}"
            yield Problem(_SELECTOR / key, text)
    if now.terms != (there.terms if before.terms is None else before.terms):
        text = f"selects GPUs otherwise than the pod did when it was created, {_REFUSED}"
        yield Problem(_AFFINITY, text)


def _wish_differences(pod: Pod, stored: Pod, record: ConversionRecord) -> Iterator[Problem]:
    """Problems with wishes that differ from the record. Defaults that changed since do not count."""
    recorded = record.wish.words()
    for word in WORDS:
        name = PREFIX + word
        path, now, before = _ANNOTATIONS / name, pod.annotations.get(name), stored.annotations.get(name)
        was = shown(recorded[word]) if word in recorded else "no such wish"
        if now is None:
            if before is not None and word in recorded:
                yield Problem(path, f"is missing and the pod was created with {was}, {_REFUSED}")
        elif (wished := _normal(word, now)) != recorded.get(word) and (wished is not None or now != before):
            yield Problem(path, f"is {shown(now)} and the pod was created with {was}, {_REFUSED}")


def _normal(word: str, text: str) -> str | None:
    """A wish as records write it; None if it has no effect or cannot be read."""
    try:
        return Wish.of({word: text}).words().get(word)
    except WishError:
        return None
