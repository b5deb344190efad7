"""The status of the GPUAdmissionPolicy: whether it holds, why not, and what the last audit found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import with_conditions
from policies.kubernetes.paths import lookup
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

__all__ = ["ACCEPTED", "PolicyStatus"]

ACCEPTED = "Accepted"
"""The type of the condition."""

_POLICY = RESOURCES["GPUAdmissionPolicy"]
_NAME = "default"
_MOST_PROBLEMS = 20
_LONGEST_PROBLEM = 1000
"""Characters; a message of `_MOST_PROBLEMS` such fits into a condition, which takes 32768."""

_INSTEAD = (
    "Until this is put right, each replica keeps the settings that it accepted last, and one that starts has the "
    "built-in defaults"
)
"""True of every replica, so that one which takes the lead has nothing else to write."""


class PolicyStatus:
    """Writes what became of the stored settings into their status, when that is something else than stands there."""

    def __init__(
        self,
        client: APIClient,
        settings: LiveSettings,
        audit_summary: Callable[[], Mapping[str, Any] | None],
        *,
        clockwork: Clockwork = Clockwork(),  # noqa: B008 - it is immutable
    ) -> None:
        """Prepare.

        Args:
            client: Talks to the API server.
            settings: Judges the settings.
            audit_summary: What the last audit found, as `status.audit` of the CRD has it; None before the first one,
                and then what is stored stays.
            clockwork: The time of day.
        """
        self._client = client
        self._settings = settings
        self._audit_summary = audit_summary
        self._clockwork = clockwork

    async def round(self) -> None:
        """Write the status where it is to be another; a write that comes too late is left to the next round.

        Raises:
            ClusterError: The API server refused, or did not answer.
        """
        state = self._settings.state
        if not isinstance(state.stored, dict) or not self._change(state, state.stored):
            return
        try:
            # What the view shows can be behind: of our own last write, or of newer settings, which are not judged yet.
            stored: Object = await self._client.get(_POLICY.path(name=_NAME))
            change = self._change(state, stored)
            if change and _identity(stored) == _identity(state.stored):
                await self._write(stored, change)
        except APIError as error:
            if not (error.not_found or error.conflict):
                raise

    async def _write(self, stored: Object, change: Mapping[str, Any]) -> None:
        guard = {"resourceVersion": lookup(stored, ("metadata", "resourceVersion"))}
        path = _POLICY.path(name=_NAME, subresource="status")
        await self._client.patch(path, {"metadata": guard, "status": change}, FIELD_MANAGER, content_type=MERGE_PATCH)

    def _change(self, state: SettingsState, stored: Object) -> dict[str, Any]:
        """The merge patch that makes the status of an object what it is to be; empty where it is that."""
        before = stored.get("status")
        status = before if isinstance(before, dict) else {}
        audit = self._audit_summary()
        wanted = {
            **status,
            "observedGeneration": _observed(state),
            "conditions": _conditions(status.get("conditions"), state, self._clockwork.now()),
            **({} if audit is None else {"audit": dict(audit)}),
        }
        return _merge_patch(status, wanted)


def _observed(state: SettingsState) -> int:
    return generation_of(state.stored) if isinstance(state.stored, dict) else 0


def _identity(stored: Object) -> tuple[Any, int]:
    return lookup(stored, ("metadata", "uid")), generation_of(stored)


def _conditions(before: Any, state: SettingsState, now: datetime) -> list[Any]:
    """The conditions with ours as it is to be; its time is that of the last change between True and False."""
    condition = {
        "type": ACCEPTED,
        "status": "False" if state.problems else "True",
        "reason": "Invalid" if state.problems else "Valid",
        "message": _message(state),
    }
    listed = before if isinstance(before, list) else []
    return with_conditions(listed, [condition], _observed(state), rfc3339(now))


def _message(state: SettingsState) -> str:
    told = state.problems or state.remarks
    lines = [f"{path}: {said}"[:_LONGEST_PROBLEM] for path, said in told[:_MOST_PROBLEMS]]
    if len(told) > _MOST_PROBLEMS:
        lines.append(f"And {len(told) - _MOST_PROBLEMS} more; gpu-admission review shows them all")
    sentences = [*lines, _INSTEAD] if state.problems else ["These settings are in use", *lines]
    return " ".join(f"{sentence}." for sentence in sentences)


def _merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON Merge Patch (RFC 7386) that makes one mapping of another."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            if inner := _merge_patch(old, value):
                patch[key] = inner
        elif key not in before or value != old:
            patch[key] = value
    return patch
