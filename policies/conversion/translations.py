"""Translations: what of a pod's asking only a claim can say, and no name of a resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.paths import FieldPath
from policies.metadata_keys import PREFIX
from policies.nvidia.identifiers import GPU_RESOURCE
from policies.nvidia.predicates import TRUE
from policies.nvidia.wishes.device_predicate import device_predicate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.conversion.conversion import Question

__all__ = ["translations"]

_ANNOTATIONS = FieldPath(["metadata", "annotations"])


def translations(question: Question) -> Iterator[tuple[FieldPath, str]]:
    """Where a pod says something that becomes more than a DeviceClass in a claim, and what; `obstacles` must be none."""
    asked, places = question.asked, question.places
    subjects = [asked.subject(resource) for resource in places]
    if any(asked.constraints.predicate(subject) != TRUE for subject in subjects):
        path, key = next(asked.constraints.places())
        yield path, f"the condition on {key} becomes a selector on devices"
    if any(device_predicate(asked.wish, subject) != TRUE for subject in subjects):
        word = next(word for word in asked.wish.words() if word != "sharing")
        yield _ANNOTATIONS / (PREFIX + word), f"the wish for {word} becomes a selector on devices"
    for resource, count in asked.shares.items():
        shares = "1 share" if count == 1 else f"{count} shares"
        yield places[resource], f"{resource} stands for {shares} of a device"
    if asked.gpu == "mig" and GPU_RESOURCE in places:
        yield places[GPU_RESOURCE], f"{GPU_RESOURCE} stands for MIG devices on the nodes of this pod"
