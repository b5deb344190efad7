"""The diagnosis of a running installation: all checks, and a conclusion."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.cluster_checks import Status
from policies.health.calls import call_checks
from policies.health.certificates import certificate_checks
from policies.health.facts import StoredCertificates, Unread
from policies.health.installed_objects import definition_checks, object_checks, role_checks
from policies.health.leading import leader_checks, quota_checks, template_checks
from policies.health.readiness import readiness_checks
from policies.health.replicas import replica_checks, version_checks
from policies.health.settings_in_use import INVALID_NOTE, settings_checks, settings_notes
from policies.health.webhook_entries import bundle_checks, called_url, known_notes, webhook_checks
from policies.phrases import format_count, format_list

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.cluster_checks import Check
    from policies.health.call_metrics import APIServerCalls
    from policies.health.facts import InstallationFacts

__all__ = ["Diagnosis", "diagnose"]


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """All checks, the calls that were counted, and the conclusion."""

    checks: tuple[Check, ...]
    calls: APIServerCalls | None
    """None if they are unread."""
    conclusion: str
    """Without a full stop."""


def diagnose(facts: InstallationFacts) -> Diagnosis:
    """Check everything that was read."""
    known = known_notes(facts.configurations) | settings_notes(facts)
    reads_settings = not isinstance(facts.policies, Unread)

    def is_known(note: str) -> bool:
        return note in known or (reads_settings and note.startswith(INVALID_NOTE))

    # The manifests are applied in a sandbox too, where no pods are made of the Deployment.
    url = called_url(facts.configurations) if facts.deployment is None or not facts.pods else ""
    checks = (
        *replica_checks(facts, url),
        *version_checks(facts),
        *readiness_checks(facts, is_known),
        *webhook_checks(facts.configurations),
        *bundle_checks(facts.bundles, is_compared=isinstance(facts.certificates, StoredCertificates)),
        *certificate_checks(facts),
        *call_checks(facts.calls, facts.api_servers),
        *leader_checks(facts),
        *quota_checks(facts),
        *template_checks(facts),
        *settings_checks(facts),
        *definition_checks(facts),
        *role_checks(facts),
        *object_checks(facts, is_outside=bool(url)),
    )
    calls = None if isinstance(facts.calls, Unread) else facts.calls
    return Diagnosis(checks, calls, _conclusion(checks))


def _conclusion(checks: Sequence[Check]) -> str:
    counts = {status: sum(each.status is status for each in checks) for status in Status}
    parts = [
        *([f"{format_count(counts[Status.FAILING], 'check')} failing"] if counts[Status.FAILING] else []),
        *([f"{format_count(counts[Status.UNKNOWN], 'check')} unknown"] if counts[Status.UNKNOWN] else []),
        *([format_count(counts[Status.WARNING], "warning")] if counts[Status.WARNING] else []),
        f"{counts[Status.OK]:,} ok",
    ]
    return format_list(parts)
