"""The diagnosis of a running installation: certificates, calls, settings, and a conclusion."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

from policies.admission import uncovered_settings
from policies.analyses.installation.cluster_checks import Check, Status, Topic
from policies.analyses.installation.installation_facts import StoredCertificates, Unread, unread_check
from policies.analyses.installation.installed_objects import (
    bundle_checks,
    called_url,
    definition_checks,
    doubled_checks,
    known_notes,
    object_checks,
    read_configurations,
    role_checks,
    webhook_checks,
)
from policies.analyses.installation.replicas import (
    leader_checks,
    quota_checks,
    readiness_checks,
    replica_checks,
    template_checks,
    version_checks,
)
from policies.kubernetes.names import format_count, format_list, inflect, shorten
from policies.kubernetes.objects import lookup, mappings_at, name_of
from policies.nvidia.container_toolkit import images_choose_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from policies.analyses.installation.installation_facts import APIServerCalls, InstallationFacts, WebhookCalls
    from policies.kubernetes.objects import Object


_CERTIFICATES_PAGE = "docs/troubleshooting.md#certificates"
_SECRET = "Secret gpu-admission-certificates in namespace gpu-admission"  # noqa: S105 - a name, and no secret
_SERVING, _AUTHORITY = timedelta(days=7), timedelta(days=60)
"""The remaining time when an alert fires; see GPUAdmissionCertificateExpires and GPUAdmissionAuthorityExpires."""
_SAME = timedelta(seconds=1)


def certificate_checks(facts: InstallationFacts) -> Iterator[Check]:
    """Checks that certificates are valid for long enough, and that replicas serve the stored one."""
    served = {
        name: each.metrics.certificate_expiry
        for name, each in facts.replicas.items()
        if not isinstance(each.metrics, Unread) and each.metrics.certificate_expiry is not None
    }
    for expiry in sorted(set(served.values())):
        names = [name for name, each in served.items() if each == expiry]
        yield _expiry_check(
            f"the certificate that {format_list(names)} {'serves' if len(names) == 1 else 'serve'}",
            expiry,
            facts.now,
            _SERVING,
        )
    if not facts.issues_certificates:
        return
    stored = facts.certificates
    if isinstance(stored, Unread):
        yield unread_check(Topic.CERTIFICATE, "the stored certificate and its authority are unknown", stored)
    elif stored is None or stored.problem:
        yield Topic.CERTIFICATE.failure(
            "the stored certificate does not exist" if stored is None else "the stored certificate cannot be used",
            where=_SECRET,
            why="" if stored is None else stored.problem,
            remedy=f"a replica creates it if it runs and may write the Secret (see replicas and rbac here); {_CERTIFICATES_PAGE}",
        )
    else:
        if stored.authority_expiry is not None:
            yield _expiry_check("the authority of the certificate", stored.authority_expiry, facts.now, _AUTHORITY)
        if stored.certificate_expiry is not None:
            if not served:
                yield _expiry_check("the stored certificate", stored.certificate_expiry, facts.now, _SERVING)
            others = [name for name, expiry in served.items() if abs(expiry - stored.certificate_expiry) > _SAME]
            if others:
                yield Topic.CERTIFICATE.warning(
                    f"{format_list(others)} {inflect('does', len(others))} not serve the stored certificate",
                    where=_SECRET,
                    why="a replica loads a new one within a minute, unless it cannot read the Secret",
                    remedy=_CERTIFICATES_PAGE,
                )
            elif served:
                yield Topic.CERTIFICATE.ok("replicas serve the stored certificate")


def _expiry_check(what: str, expiry: datetime, now: datetime, least: timedelta) -> Check:
    if expiry <= now:
        return Topic.CERTIFICATE.failure(
            f"{what} has expired at {expiry:%Y-%m-%d %H:%M} UTC",
            why="API servers refuse the connection, so every call fails",
            remedy=_CERTIFICATES_PAGE,
        )
    days = (expiry - now).days
    remaining = f"{what} expires in {days} days, at {expiry:%Y-%m-%d %H:%M} UTC"
    if expiry - now < least:
        return Topic.CERTIFICATE.warning(remaining, why="it was not replaced in time", remedy=_CERTIFICATES_PAGE)
    return Topic.CERTIFICATE.ok(f"{what} is valid for {days} days")


_NAME = "default"
INVALID_NOTE = f"GPUAdmissionPolicy {_NAME}, generation "
"""The beginning of the note of a replica with invalid settings."""
_PAGE = "docs/troubleshooting.md#settings"
_LONGEST_SETTING = 400


def settings_notes(facts: InstallationFacts) -> set[str]:
    """The notes of replicas about settings that `settings_checks` reports."""
    uncovered = uncovered_settings(read_configurations(facts.called), facts.settings)
    return {f"GPUAdmissionPolicy {_NAME}: {each.text}" for each in uncovered}


def settings_checks(facts: InstallationFacts) -> Iterator[Check]:
    """Checks that the settings are accepted, and that the webhook configurations cover them."""
    if isinstance(facts.policies, Unread):
        yield unread_check(
            Topic.SETTINGS, "it is unknown which settings are stored, and whether they are in use", facts.policies
        )
        return
    stored = {name_of(each): each for each in facts.policies}
    others = sorted(stored.keys() - {_NAME})
    if others:
        yield Topic.SETTINGS.warning(
            f"GPUAdmissionPolicy {format_list(others)} has no effect",
            why=f"only the one with the name {_NAME} is read",
            remedy=f"kubectl delete gpuadmissionpolicy {others[0]}",
        )
    accepted = _accepted_check(stored.get(_NAME))
    yield accepted
    if accepted.status is Status.FAILING:
        return
    for found in uncovered_settings(read_configurations(facts.called), facts.settings):
        yield Topic.SETTINGS.warning(
            found.message,
            where=f"GPUAdmissionPolicy {_NAME}, {found.path}",
            why="the webhook configurations were rendered for other settings",
            remedy=f"{found.remedy}, with `gpu-admission apply-webhooks` (docs/settings.md)",
        )


def access_checks(facts: InstallationFacts) -> Iterator[Check]:
    """Checks that mode `deny` refuses the images that choose GPUs, where the toolkit lets them."""
    access = facts.settings.access
    if isinstance(facts.policies, Unread) or access.mode != "deny" or access.legacy_runtime:
        return
    if isinstance(facts.cluster_policies, Unread):
        yield unread_check(
            Topic.SETTINGS, "it is unknown whether images choose GPUs on the nodes", facts.cluster_policies
        )
        return
    for policy in facts.cluster_policies:
        if images_choose_gpus(policy):
            yield Topic.SETTINGS.warning(
                "images of NVIDIA and CUDA_VERSION give containers every GPU of the node, and are admitted",
                where=f"ClusterPolicy {name_of(policy)}, spec.toolkit.env and spec.cdi.enabled",
                why="NVIDIA's container runtime is the default of the nodes, and access.legacyRuntime is false",
                remedy=f"set access.legacyRuntime: true in GPUAdmissionPolicy {_NAME}, or enable CDI; docs/access.md",
            )


def _accepted_check(policy: Object | None) -> Check:
    if policy is None:
        return Topic.SETTINGS.ok("no GPUAdmissionPolicy is stored, so the defaults are in use")
    generation = lookup(policy, ("metadata", "generation"))
    condition = next(
        (each for each in mappings_at(policy, ("status", "conditions")) if each.get("type") == "Accepted"), None
    )
    where = f"GPUAdmissionPolicy {_NAME}"
    if condition is None or condition.get("observedGeneration") != generation:
        return Topic.SETTINGS.warning(
            "it is not known yet whether the settings are valid",
            where=f"{where}, status.conditions",
            why="the leader has not looked at the newest version of them",
            remedy="wait for half a minute; if it persists, see leader here",
        )
    if condition.get("status") != "True":
        return Topic.SETTINGS.failure(
            "the stored settings are invalid, and not in use",
            where=where,
            why=shorten(str(condition.get("message")), _LONGEST_SETTING),
            remedy=f"correct them: kubectl edit gpuadmissionpolicy {_NAME}; {_PAGE}",
        )
    return Topic.SETTINGS.ok("the stored settings are accepted")


MEDIAN, SLOWEST = 0.5, 0.99
"""Shares of the calls whose time is shown."""
_MOST_FAILED = 0.001
_LONGEST = 0.1
"""The objectives of docs/slo.md: the share of calls without an answer, and the seconds for 99 of 100 calls."""
_ENOUGH = 100
"""Calls of an entry before its slowest are worth a warning."""
_WHERE = "/metrics of the API server that answered"


def call_checks(calls: APIServerCalls | Unread, api_servers: int) -> Iterator[Check]:
    """Checks that calls are answered, and in time.

    Args:
        calls: What one API server counted.
        api_servers: How many there are; 0 if that is unknown.
    """
    if isinstance(calls, Unread):
        yield unread_check(Topic.CALLS, "it is unknown how many calls fail, and how long they take", calls)
        return
    since = f" since {calls.since:%Y-%m-%d %H:%M} UTC" if calls.since else ""
    where = f"{_WHERE}, 1 of {api_servers}; the others count their own calls" if api_servers > 1 else _WHERE
    total = sum(each.calls for each in calls.webhooks.values())
    failed = {name: each for name, each in calls.webhooks.items() if each.failed > _MOST_FAILED * max(each.calls, 1)}
    for name, each in failed.items():
        yield _failure_check(name, each, since, where)
    if not failed:
        lost = sum(each.failed for each in calls.webhooks.values())
        of = f" of 1 of {api_servers} API servers" if api_servers > 1 else ""
        counted = f"{lost:,} of {format_count(total, 'call')}{of} had no answer" if total else f"no call{of} was made"
        yield Topic.CALLS.ok(f"{counted}{since}")
    yield from _latency(calls, where)
    for name, each in calls.webhooks.items():
        if each.condition_errors:
            yield Topic.CONDITIONS.warning(
                f"matchConditions of {name} failed {format_count(each.condition_errors, 'time')}{since}",
                where=where,
                why="an object was too expensive to evaluate, so the failurePolicy of the webhook decided",
                remedy="docs/security.md says who may create such objects",
            )


def _failure_check(name: str, calls: WebhookCalls, since: str, where: str) -> Check:
    parts = [
        *([f"{calls.failed_closed:,} refused their object"] if calls.failed_closed else []),
        *([f"{calls.failed_open:,} let it pass unreviewed"] if calls.failed_open else []),
    ]
    return Topic.CALLS.warning(
        f"{calls.failed:,} of {format_count(calls.calls, 'call')} of {name} had no answer{since}",
        where=where,
        why=format_list(parts),
        remedy="docs/troubleshooting.md#calls-do-not-arrive; the numbers stay until the API server restarts",
    )


def _latency(calls: APIServerCalls, where: str) -> Iterator[Check]:
    timed = {name: each for name, each in calls.webhooks.items() if each.bound(MEDIAN) is not None}
    slow = {
        name: bound
        for name, each in timed.items()
        if each.calls >= _ENOUGH and (bound := each.bound(SLOWEST) or 0) > _LONGEST
    }
    for name, bound in slow.items():
        yield Topic.LATENCY.warning(
            f"more than 1 of 100 calls of {name} take longer than {_LONGEST:g} s; 99 of 100 take {bound_text(bound)}",
            where=where,
            remedy="docs/troubleshooting.md#load",
        )
    if timed and not slow:
        slowest = max(each.bound(MEDIAN) or 0 for each in timed.values())
        what = f"half of the calls of each webhook take {bound_text(slowest)}"
        yield Topic.LATENCY.ok(what)


def bound_text(seconds: float | None) -> str:
    """`at most 25 ms`."""
    if seconds is None:
        return "-"
    if math.isinf(seconds):
        return "longer than the API server measures"
    return f"at most {seconds:g} s" if seconds >= 1 else f"at most {seconds * 1000:g} ms"


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
        *webhook_checks(facts.called),
        *doubled_checks(facts.static, facts.configurations),
        *bundle_checks(facts.bundles, is_compared=isinstance(facts.certificates, StoredCertificates)),
        *certificate_checks(facts),
        *call_checks(facts.calls, facts.api_servers),
        *leader_checks(facts),
        *quota_checks(facts),
        *template_checks(facts),
        *settings_checks(facts),
        *access_checks(facts),
        *definition_checks(facts),
        *role_checks(facts),
        *object_checks(facts, is_outside=bool(url)),
    )
    calls = None if isinstance(facts.calls, Unread) else facts.calls
    counts = {status: sum(each.status is status for each in checks) for status in Status}
    parts = [
        *([f"{format_count(counts[Status.FAILING], 'check')} failing"] if counts[Status.FAILING] else []),
        *([f"{format_count(counts[Status.UNKNOWN], 'check')} unknown"] if counts[Status.UNKNOWN] else []),
        *([format_count(counts[Status.WARNING], "warning")] if counts[Status.WARNING] else []),
        f"{counts[Status.OK]:,} ok",
    ]
    return Diagnosis(checks, calls, format_list(parts))
