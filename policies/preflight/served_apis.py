"""APIs that the API server cannot serve: aggregated ones, and custom resources whose conversion fails."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.cluster_checks import Check, Status, forbidden_check
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import mappings_at
from policies.phrases import shorten
from policies.view import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policies.kubernetes.objects import Object

__all__ = ["api_checks", "conversion_checks"]


def api_checks(services: Sequence[Object] | Unknown) -> Iterator[Check]:
    """Aggregated APIs that are not available.

    Args:
        services: All APIServices.
    """
    if isinstance(services, Unknown):
        right = "list apiservices.apiregistration.k8s.io"
        yield forbidden_check("apis", "it is unknown whether all aggregated APIs are available", right)
        return
    broken = [(each, condition) for each in services if (condition := _unavailable(each)) is not None]
    for each, condition in broken:
        yield Check(
            name="apis",
            status=Status.WARNING,
            what=f"aggregated API {name_of(each)} is not available",
            where=f"APIService {name_of(each)}",
            why=f"{condition.get('reason')}: {shorten(str(condition.get('message')))}; discovery is incomplete, and namespaces "
            "cannot be deleted meanwhile",
            remedy="repair the service behind it, or delete the APIService if nothing uses it",
        )
    if not broken:
        yield Check(name="apis", status=Status.OK, what="every aggregated API is available")


def _unavailable(service: Object) -> Object | None:
    """The condition that says that an API is not available; None if it is, or nothing is known."""
    return next(
        (
            each
            for each in mappings_at(service, ("status", "conditions"))
            if each.get("type") == "Available" and each.get("status") == "False"
        ),
        None,
    )


def conversion_checks(broken: Sequence[tuple[str, str]] | Unknown) -> Iterator[Check]:
    """Custom resources that gpu-admission reads and whose conversion webhook fails.

    Args:
        broken: The names of CRDs, each with the error of a list of its objects.
    """
    if isinstance(broken, Unknown):
        right = "list customresourcedefinitions.apiextensions.k8s.io"
        yield forbidden_check("conversions", "it is unknown whether a conversion webhook fails", right)
        return
    for name, error in broken:
        yield Check(
            name="conversions",
            status=Status.WARNING,
            what=f"objects of {name} cannot be read",
            where=f"CustomResourceDefinition {name}, spec.conversion",
            why=shorten(error),
            remedy="repair its conversion webhook; until then, rules treat these objects as unknown",
        )
    if not broken:
        yield Check(
            name="conversions",
            status=Status.OK,
            what="no conversion webhook fails for objects that gpu-admission reads",
        )
