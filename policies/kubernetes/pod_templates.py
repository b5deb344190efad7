"""A pod template of a workload: the template, where its fields are in the workload, and how many pods it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeGuard

from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.kubernetes.objects import Object

__all__ = ["PodCount", "PodTemplate", "is_count", "pod_count", "pod_template"]

_MARKS = ("labels", "annotations")


class PodCount(NamedTuple):
    """The pods of one template that run side by side."""

    pods: int
    path: FieldPath
    """The field that says so, or would if it were there."""


@dataclass(frozen=True, slots=True)
class PodTemplate:
    """One pod template of a workload."""

    path: FieldPath
    """Where the workload has it; of a template that is composed of several fields, the field that stands for it."""
    template: Object
    """With `metadata` and `spec`, whatever the workload calls them."""
    homes: tuple[tuple[tuple[str | int, ...], FieldPath], ...]
    """Pairs of a place in the template and its place in the workload; the first pair that matches counts."""
    count: PodCount | None = None
    """How many pods run at once; None if that is not in the object. Surplus pods of rolling updates, and what an
    autoscaler adds later, are left out. A number that the API server would refuse counts as missing."""
    is_composed: bool = False
    """True if fields of the template come from several places, so that a changed template cannot be written back."""

    def home(self, path: FieldPath) -> FieldPath:
        """Where in the workload a field of its pod comes from: the namespace is the workload's own."""
        if path[:2] == ("metadata", "namespace"):
            return path
        for inside, outside in self.homes:
            if path[: len(inside)] == inside:
                return FieldPath((*outside, *path[len(inside) :]))
        return self.path

    def edits(self, template: Object) -> Iterator[tuple[FieldPath, Any]]:
        """The fields of the workload that change if it gets another template, with their values; none if composed."""
        if not self.is_composed:
            for inside, outside in self.homes:
                if (value := lookup(template, inside)) is not None:
                    yield outside, value


def pod_template(
    workload: Object, path: FieldPath, value: Object, count: PodCount | None, labels_above: int | None = None
) -> PodTemplate:
    """The pod template at a path, or the template that a pod spec at that path comes to.

    Args:
        workload: The object that has it.
        path: Where.
        value: What is there.
        count: The number of its pods.
        labels_above: For a pod spec, how many steps above it the pod's labels and annotations are; None if nowhere.
    """
    if "spec" in value or "containers" not in value:
        return PodTemplate(path, value, (((), path),), count)
    if labels_above is None:
        return PodTemplate(path, {"spec": value}, ((("spec",), path),), count)
    above = FieldPath(path[: len(path) - labels_above])
    found = {mark: marks for mark in _MARKS if (marks := lookup(workload, above / mark)) is not None}
    homes = ((("spec",), path), *((("metadata", mark), above / mark) for mark in _MARKS))
    return PodTemplate(path, {"metadata": found, "spec": value}, homes, count)


def pod_count(workload: Object, path: FieldPath, default: int = 1) -> PodCount:
    """The number at a path; `default` if there is none."""
    found = lookup(workload, path)
    return PodCount(found if is_count(found) else default, path)


def is_count(found: Any) -> TypeGuard[int]:
    """Whether a value is a number of pods that the API server accepts."""
    return isinstance(found, int) and not isinstance(found, bool) and found >= 0
