"""Comparison of migrated objects with those that the marks in their text restore."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from policies.decision import TEMPLATE
from policies.dra.deviceclasses import GPU_CLASS, MIG_CLASS
from policies.kubernetes.objects import generate_name_of, name_of, namespace_of
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policies.kubernetes.objects import Object

__all__ = ["gpu_templates", "identity_of", "names_template", "with_specs"]

_REFERENCE = "resourceClaimTemplateName"


def identity_of(document: Object) -> tuple[str, ...]:
    """What names an object in a file: kind, namespace and name."""
    return str(document.get("kind")), namespace_of(document), name_of(document) or generate_name_of(document)


def gpu_templates(documents: Iterable[Object]) -> dict[str, str]:
    """The specs of the ResourceClaimTemplates of NVIDIA's classes as text, by name."""
    return {
        name_of(document): json.dumps(lookup(document, ("spec", "spec")), sort_keys=True)
        for document in documents
        if document.get("kind") == TEMPLATE and any(each in str(document) for each in (GPU_CLASS, MIG_CLASS))
    }


def names_template(document: Any, templates: Mapping[str, str]) -> bool:
    """True if an object refers to one of the templates."""
    return any(name in templates for name in _references(document))


def with_specs(document: Any, templates: Mapping[str, str]) -> Any:
    """An object in which the names of templates are replaced by their specs, so that names do not matter."""
    if isinstance(document, list):
        return [with_specs(each, templates) for each in document]
    if not isinstance(document, dict):
        return document
    return {
        key: templates.get(value, value)
        if key == _REFERENCE and isinstance(value, str)
        else with_specs(value, templates)
        for key, value in document.items()
    }


def _references(document: Any) -> Iterator[str]:
    """The names of templates in an object of any shape."""
    waiting = [document]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            name = part.get(_REFERENCE)
            if isinstance(name, str):
                yield name
            waiting += part.values()
        elif isinstance(part, list):
            waiting += part
