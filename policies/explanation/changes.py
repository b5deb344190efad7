"""Copies of a claim with one change."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from policies.dra.resource_claims import Claim
from policies.kubernetes.paths import lookup, replace_at

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policies.explanation.question import NamedClaim
    from policies.kubernetes.paths import FieldPath

__all__ = ["with_capacity", "with_count", "with_selector", "with_toleration", "without_constraint"]


def without_constraint(claim: NamedClaim, position: int) -> NamedClaim:
    """The claim without one of its constraints."""
    path = claim.claim.devices_path / "constraints"
    constraints = lookup(claim.claim.document, path)
    return _with_value(claim, path, [*constraints[:position], *constraints[position + 1 :]])


def with_count(claim: NamedClaim, request: str, count: int) -> NamedClaim:
    """The claim with another count in a request, such as `gpu` or `gpu/large`."""
    return _with_request(claim, request, lambda asked: {**asked, "count": count})


def with_capacity(claim: NamedClaim, request: str, amounts: Mapping[str, Any]) -> NamedClaim:
    """The claim with these amounts of capacities in a request, and no others; it may have had none."""
    return _with_request(
        claim, request, lambda asked: {**asked, "capacity": {**(asked.get("capacity") or {}), "requests": amounts}}
    )


def with_selector(claim: NamedClaim, request: str, index: int, expression: str) -> NamedClaim:
    """The claim with another expression for one selector of a request; an empty one removes the selector."""

    def change(asked: dict[str, Any]) -> dict[str, Any]:
        selectors = asked["selectors"]
        instead = [{"cel": {"expression": expression}}] if expression else []
        return {**asked, "selectors": [*selectors[:index], *instead, *selectors[index + 1 :]]}

    return _with_request(claim, request, change)


def with_toleration(claim: NamedClaim, request: str, key: str, effect: str) -> NamedClaim:
    """The claim with a request that tolerates one more taint, whatever its value."""
    toleration = {"key": key, "operator": "Exists", "effect": effect}
    return _with_request(
        claim, request, lambda asked: {**asked, "tolerations": [*(asked.get("tolerations") or []), toleration]}
    )


def _with_request(claim: NamedClaim, name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> NamedClaim:
    subrequest = next(each for each in claim.claim.subrequests if each.full_name == name)
    return _with_value(claim, subrequest.path, change(subrequest.fields))


def _with_value(claim: NamedClaim, path: FieldPath, value: Any) -> NamedClaim:
    return replace(claim, claim=Claim(replace_at(claim.claim.document, path, value)))
