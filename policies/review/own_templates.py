"""The templates of a pod that is being converted, which the view may not show yet."""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING

from policies.conversion.sweep import references
from policies.decision import TEMPLATE
from policies.review.on_demand import Review, load_function
from policies.view import Overlay

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kubernetes.objects import Object
    from policies.request import Request
    from policies.settings import GPUAdmissionPolicy
    from policies.view import ClusterView, Key, Unknown

__all__ = ["with_own_templates"]


def with_own_templates(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> ClusterView:
    """The cluster with the templates of a pod that is being converted, which a cache may not show yet.

    Only templates that the conversion of the pod makes are added, so a forged record adds none.
    """
    keys = [(TEMPLATE, request.namespace, name) for name in references(request.object or {})]
    missing = [key for key in keys if not isinstance(view.get(TEMPLATE, key[2], request.namespace), dict)]
    if not missing:
        return view
    made = cache(partial(_own_templates, request, view, settings))
    return Overlay(view, {key: partial(_own_template, key, made, view) for key in missing})


def _own_templates(request: Request, view: ClusterView, settings: GPUAdmissionPolicy) -> dict[Key, Object]:
    conversion: Review = load_function("conversion")
    return {each.key: each.manifest() for each in conversion(request, view, settings).templates}


def _own_template(key: Key, made: Callable[[], dict[Key, Object]], view: ClusterView) -> Object | Unknown | None:
    kind, namespace, name = key
    return made().get(key) or view.get(kind, name, namespace)
