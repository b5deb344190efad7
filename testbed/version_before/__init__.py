"""The version before this one: its webhook configurations, and a program that answers only its paths.

`mutating.yaml`, `validating.yaml` and `gpuquotas.yaml` are those of that version's deploy/, unchanged.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from testbed import libyaml

__all__ = ["paths", "quota_definition", "webhook_configurations"]

_FOLDER = Path(__file__).parent


def webhook_configurations() -> list[dict[str, Any]]:
    """Both webhook configurations."""
    return [libyaml.load((_FOLDER / f"{kind}.yaml").read_text()) for kind in ("mutating", "validating")]


def quota_definition() -> dict[str, Any]:
    """The CRD of GPUQuotas, which does not know `status.openCharges`."""
    definition: dict[str, Any] = libyaml.load((_FOLDER / "gpuquotas.yaml").read_text())
    return definition


def paths() -> frozenset[str]:
    """The paths that its API servers call: `/conversion`."""
    return frozenset(
        webhook["clientConfig"]["service"]["path"]
        for configuration in webhook_configurations()
        for webhook in configuration["webhooks"]
    )
