"""The status of the GPUAdmissionPolicy: whether it is in use, problems, and the last audit."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import lookup, with_conditions
from webhook.cluster.client import MERGE_PATCH
from webhook.cluster.clockwork import Clockwork, rfc3339
from webhook.cluster.errors import APIError
from webhook.cluster.live_settings import generation_of
from webhook.cluster.resources import RESOURCES
from webhook.server.template_keeper import FIELD_MANAGER

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime

    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient
    from webhook.cluster.live_settings import LiveSettings, SettingsState

__all__ = ["PolicyStatus"]

ACCEPTED = "Accepted"
"""The type of our condition."""

_POLICY = RESOURCES["GPUAdmissionPolicy"]
_NAME = "default"
_MOST_PROBLEMS = 20
_LONGEST_PROBLEM = 1000
"""Characters; `_MOST_PROBLEMS` of this length fit into a condition, which allows 32768."""

_INSTEAD = (
    "Until this is fixed, each replica keeps the settings that it accepted last, and a new replica uses the "
    "built-in defaults"
)
"""The same text for every replica, so that a new leader does not write a different one."""


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """Writes the status of the stored settings if it changes."""

    client: APIClient
    """Talks to the API server."""
    settings: LiveSettings
    """Validates the settings."""
    audit_summary: Callable[[], Mapping[str, Any] | None]
    """Returns `status.audit` of the last audit; None before the first one, which keeps the old."""
    clockwork: Clockwork = field(default_factory=Clockwork)
    """The time of day."""

    async def round(self) -> None:
        """Write the status if it changes; after a conflict, the next round tries again.

        Raises:
            ClusterError: The API server refused, or did not answer.
        """
        state = self.settings.state
        if not isinstance(state.stored, dict) or not self._change(state, state.stored):
            return
        try:
            # The view may not show our own last write yet, or newer settings, which are not validated yet.
            stored: Object = await self.client.get(_POLICY.path(name=_NAME))
            change = self._change(state, stored)
            if change and _identity(stored) == _identity(state.stored):
                await self._write(stored, change)
        except APIError as error:
            if not (error.is_not_found or error.is_conflict):
                raise

    async def _write(self, stored: Object, change: Mapping[str, Any]) -> None:
        guard = {"resourceVersion": lookup(stored, ("metadata", "resourceVersion"))}
        path = _POLICY.path(name=_NAME, subresource="status")
        await self.client.patch(path, {"metadata": guard, "status": change}, FIELD_MANAGER, content_type=MERGE_PATCH)

    def _change(self, state: SettingsState, stored: Object) -> dict[str, Any]:
        """The merge patch to the wanted status; empty if nothing changes."""
        before = stored.get("status")
        status = before if isinstance(before, dict) else {}
        audit = self.audit_summary()
        wanted = {
            **status,
            "observedGeneration": _generation(state),
            "conditions": _conditions(status.get("conditions"), state, self.clockwork.now()),
            **({} if audit is None else {"audit": dict(audit)}),
        }
        return _merge_patch(status, wanted)


def _generation(state: SettingsState) -> int:
    return generation_of(state.stored) if isinstance(state.stored, dict) else 0


def _identity(stored: Object) -> tuple[Any, int]:
    return lookup(stored, ("metadata", "uid")), generation_of(stored)


def _conditions(before: Any, state: SettingsState, now: datetime) -> list[Any]:
    """The conditions with ours in its new state."""
    condition = {
        "type": ACCEPTED,
        "status": "False" if state.problems else "True",
        "reason": "Invalid" if state.problems else "Valid",
        "message": _message(state),
    }
    listed = before if isinstance(before, list) else []
    return with_conditions(listed, [condition], _generation(state), rfc3339(now))


def _message(state: SettingsState) -> str:
    remarks = state.problems or state.remarks
    lines = [f"{path}: {said}"[:_LONGEST_PROBLEM] for path, said in remarks[:_MOST_PROBLEMS]]
    if len(remarks) > _MOST_PROBLEMS:
        lines.append(f"And {len(remarks) - _MOST_PROBLEMS} more; gpu-admission review shows them all")
    sentences = [*lines, _INSTEAD] if state.problems else ["These settings are in use", *lines]
    return " ".join(f"{sentence}." for sentence in sentences)


def _merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Merge Patch (RFC 7386) from one mapping to another."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := _merge_patch(old, value):
                patch[key] = inner
        elif key not in before or value != old:
            patch[key] = value
    return patch
