"""Settings: whether the stored GPUAdmissionPolicy is in use, and the webhook configurations cover it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.admission.installed import uncovered_settings
from policies.cluster_checks import Check, Status
from policies.health.facts import Unread, unread_check
from policies.health.webhook_entries import read_configurations
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup, mappings_at
from policies.phrases import format_list, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policies.health.facts import InstallationFacts
    from policies.kubernetes.objects import Object

__all__ = ["INVALID_NOTE", "settings_checks", "settings_notes"]

_NAME = "default"
INVALID_NOTE = f"GPUAdmissionPolicy {_NAME}, generation "
"""How the note of a replica begins whose settings are invalid."""
_PAGE = "docs/troubleshooting.md#settings"
_LONGEST = 400


def settings_notes(facts: InstallationFacts) -> set[str]:
    """The notes of replicas about settings that `settings_checks` reports."""
    uncovered = uncovered_settings(read_configurations(facts.configurations), facts.settings)
    return {f"GPUAdmissionPolicy {_NAME}: {path}: {said}" for path, said in uncovered}


def settings_checks(facts: InstallationFacts) -> Iterator[Check]:
    """Whether the settings are accepted, and the webhook configurations cover them."""
    if isinstance(facts.policies, Unread):
        yield unread_check(
            "settings", "it is unknown which settings are stored, and whether they are in use", facts.policies
        )
        return
    stored = {name_of(each): each for each in facts.policies}
    others = sorted(stored.keys() - {_NAME})
    if others:
        yield Check(
            name="settings",
            status=Status.WARNING,
            what=f"GPUAdmissionPolicy {format_list(others)} has no effect",
            why=f"only the one with the name {_NAME} is read",
            remedy=f"kubectl delete gpuadmissionpolicy {others[0]}",
        )
    accepted = _accepted_check(stored.get(_NAME))
    yield accepted
    if accepted.status is Status.FAILING:
        return
    for path, said in uncovered_settings(read_configurations(facts.configurations), facts.settings):
        what, _, remedy = said.rpartition("; ")
        yield Check(
            name="settings",
            status=Status.WARNING,
            what=what,
            where=f"GPUAdmissionPolicy {_NAME}, {path}",
            why="the webhook configurations were rendered for other settings",
            remedy=f"{remedy}, with `gpu-admission apply-webhooks` (docs/settings.md)",
        )


def _accepted_check(policy: Object | None) -> Check:
    if policy is None:
        return Check(
            name="settings", status=Status.OK, what="no GPUAdmissionPolicy is stored, so the defaults are in use"
        )
    generation = lookup(policy, ("metadata", "generation"))
    condition = next(
        (each for each in mappings_at(policy, ("status", "conditions")) if each.get("type") == "Accepted"), None
    )
    where = f"GPUAdmissionPolicy {_NAME}"
    if condition is None or condition.get("observedGeneration") != generation:
        return Check(
            name="settings",
            status=Status.WARNING,
            what="it is not known yet whether the settings are valid",
            where=f"{where}, status.conditions",
            why="the leader has not looked at the newest version of them",
            remedy="wait for half a minute; if it persists, see leader here",
        )
    if condition.get("status") != "True":
        return Check(
            name="settings",
            status=Status.FAILING,
            what="the stored settings are invalid, and not in use",
            where=where,
            why=shorten(str(condition.get("message")), _LONGEST),
            remedy=f"correct them: kubectl edit gpuadmissionpolicy {_NAME}; {_PAGE}",
        )
    return Check(name="settings", status=Status.OK, what="the stored settings are accepted")
