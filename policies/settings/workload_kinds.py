"""Workload kinds that the administrator adds to the built-in table, and what can be wrong with them."""

from __future__ import annotations

import re
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup
from policies.kubernetes.printable import quote
from policies.kubernetes.workloads import WORKLOADS, WorkloadKind, path_steps

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.settings.choices import AddedKind, GPUAdmissionPolicy

__all__ = ["kind_problems", "workload_kinds"]

_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_WORDS = {
    "group": (re.compile(rf"{_LABEL}(\.{_LABEL})+"), "the API group of a custom resource, such as example.com"),
    "kind": (re.compile("[A-Z][A-Za-z0-9]*"), "the kind as objects spell it, such as TrainingRun"),
    "resource": (re.compile(_LABEL), "the plural as kubectl api-resources lists it, such as trainingruns"),
}
"""Fields with one word, and what to write."""
_PATH = "a path such as spec.template or spec.workers[*].template"


def workload_kinds(settings: GPUAdmissionPolicy) -> Mapping[tuple[str, str], WorkloadKind]:
    """The kinds of objects that create pods, by group and kind; settings can replace built-in ones."""
    return _with_added(settings.workloads.kinds) if settings.workloads.kinds else WORKLOADS


@lru_cache(maxsize=8)
def _with_added(added: tuple[AddedKind, ...]) -> Mapping[tuple[str, str], WorkloadKind]:
    kinds = (WorkloadKind(each.group, each.kind, each.templates, each.counts) for each in added)
    return MappingProxyType({**WORKLOADS, **{(kind.group, kind.kind): kind for kind in kinds}})


def kind_problems(entry: Any) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What is wrong with one added kind; wrong types are reported elsewhere."""
    for field, (pattern, wanted) in _WORDS.items():
        value = lookup(entry, (field,))
        if isinstance(value, str) and not pattern.fullmatch(value):
            yield (field,), f"is {quote(value)}; write {wanted}"
    if lookup(entry, ("templates",)) == []:
        yield ("templates",), f"is empty; write where the pod templates are, {_PATH}"
    templates = [steps for _, _, steps in _paths(entry, "templates") if steps]
    for field in ("templates", "counts"):
        for index, text, steps in _paths(entry, field):
            if not steps:
                yield (field, index), f"is {quote(text)}; write {_PATH}"
            elif field == "counts" and not any(each[: len(steps) - 1] == steps[:-1] for each in templates):
                parent = text.rpartition(".")[0]
                place = f"in {parent} or below it" if parent else "in the object"
                yield (field, index), f"is {quote(text)}, and no template is {place}, so it counts nothing"


def _paths(entry: Any, field: str) -> Iterator[tuple[int, str, tuple[str, ...]]]:
    """The texts of a list of paths, with their steps; no steps if a text is not a path."""
    value = lookup(entry, (field,))
    for index, text in enumerate(value if isinstance(value, list) else ()):
        if isinstance(text, str):
            try:
                yield index, text, path_steps(text)
            except ValueError:
                yield index, text, ()
