"""PATCH: what a patch in one of its content types makes of an object."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from webhook.sandbox.patches import BadPatch, PatchFailed, apply_json_patch, apply_merge_patch
from webhook.sandbox.statuses import bad_request, failure, patch_rejected
from webhook.sandbox.strategic import apply_strategic_patch

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kubernetes.objects import Object

__all__ = ["JSON_PATCH", "MERGE_PATCH", "STRATEGIC_PATCH", "change_of"]

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_MOST_OPERATIONS = 10_000
"""Source: k8s.io/apiserver pkg/endpoints/handlers/patch.go maxJSONPatchOperations."""


def change_of(content_type: str, patch: Any) -> Callable[[Object], Any]:
    """What gives the patched document for an object.

    Raises:
        Refused: it is no patch; the result raises it where the patch does not fit.
    """
    if content_type in (MERGE_PATCH, STRATEGIC_PATCH):
        if not isinstance(patch, dict):
            raise bad_request("error decoding patch: a merge patch is a JSON object")
        if content_type == MERGE_PATCH:
            return lambda document: apply_merge_patch(document, patch)
        return lambda document: _strategically_patched(document, patch)
    if isinstance(patch, list) and len(patch) > _MOST_OPERATIONS:
        raise failure(
            413,
            "RequestEntityTooLarge",
            "Request entity too large: The allowed maximum operations in a JSON patch is"
            f" {_MOST_OPERATIONS}, got {len(patch)}",
        )
    return lambda document: _json_patched(document, patch)


def _strategically_patched(document: Object, patch: Object) -> Any:
    try:
        return apply_strategic_patch(document, patch)
    except BadPatch as error:
        raise bad_request(f"error decoding patch: {error}") from error


def _json_patched(document: Object, patch: Any) -> Any:
    try:
        return apply_json_patch(document, patch)
    except BadPatch as error:
        raise bad_request(f"error decoding patch: {error}") from error
    except PatchFailed as error:
        raise patch_rejected() from error
