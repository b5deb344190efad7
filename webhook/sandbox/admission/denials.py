"""What becomes of the status with which a webhook says no.

Source: k8s.io/apiserver pkg/admission/plugin/webhook/errors/statuserror.go.
"""

from __future__ import annotations

from typing import Any

from webhook.sandbox.attempt import Refused

__all__ = ["denied", "dry_run_unsupported"]

_LEAST_ERROR = 400


def denied(webhook: str, status: dict[str, Any] | None) -> Refused:
    """The webhook's own status, reason, details and code, with its name before its words."""
    given = status or {}
    by = f'admission webhook "{webhook}" denied the request'
    explanation = given.get("message") or given.get("reason")
    return Refused(
        {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            **given,
            "status": "Failure" if given.get("status") in (None, "", "Success") else given["status"],
            "message": f"{by}: {explanation}" if explanation else f"{by} without explanation",
            "code": max(given.get("code") or 0, _LEAST_ERROR),
        }
    )


def dry_run_unsupported(webhook: str) -> str:
    """Why a dry-run is refused: the webhook may have side effects that it does not leave out."""
    return f'admission webhook "{webhook}" does not support dry run'
