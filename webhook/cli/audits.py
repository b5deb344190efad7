"""Audits: of a cluster in files, or of a running one."""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from policies.audit import Survey, audit
from policies.entries import CONFIGURATIONS
from policies.kubernetes.paths import lookup
from policies.settings.installed import uncovered_settings
from policies.view import UNKNOWN
from webhook.cli.connection import connected
from webhook.cli.documents import Reader
from webhook.cli.namespaces import check_exists
from webhook.cli.settings import chosen_settings, read_settings, settings_of_files
from webhook.cluster.manifests import ManifestsView, unwrap_lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.audit import AuditReport
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy
    from webhook.cluster.client import APIClient

__all__ = ["Audited", "as_json", "audit_files", "audit_running"]

_DEFAULT_NAMESPACE = "default"

# What goes wrong is told in the report, or as an error; without a handler, Python would print it as well.
logging.getLogger("gpu_admission").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Audited:
    """A report, and what there is to say about how it came about."""

    report: AuditReport
    notes: tuple[str, ...]
    """Sentences without full stops."""


def audit_files(cluster: Sequence[str], namespace: str, settings: str | None) -> Audited:
    """Audit a cluster as its manifests tell it.

    Args:
        cluster: Files and folders.
        namespace: The only one to look into; empty for all.
        settings: The file with the administrator's choices; if None, the GPUAdmissionPolicy among the manifests.

    Raises:
        UnreadableInputError: with the problems of all files.
        click.UsageError: they hold nothing.
    """
    reader = Reader()
    chosen = read_settings(settings, reader)
    facts = reader.cluster(cluster)
    if reader.problems:
        reader.fail()
    objects = [_in_namespace(item) for fact in facts for item in unwrap_lists(fact)]
    if not objects:
        raise click.UsageError(f"nothing to audit: no objects in {', '.join(cluster)}")
    view = ManifestsView(facts)
    check_exists(view, namespace)
    policy, notes = (chosen, []) if settings else settings_of_files(view)
    survey = Survey(view, policy, namespace)
    survey.add(objects)
    for _, kind in survey.kinds:
        if view.list(kind) is UNKNOWN:
            survey.miss(kind)
    stored = [found for kind, name in CONFIGURATIONS if isinstance(found := view.get(kind, name), dict)]
    return Audited(audit(view, policy, survey), (*notes, *_uncovered(stored, policy)))


def audit_running(kubeconfig: str | None, context: str | None, namespace: str, settings: str | None) -> Audited:
    """Audit a running cluster.

    Args:
        kubeconfig: The file that says which; None for what kubectl would take.
        context: The context in it.
        namespace: The only one to look into; empty for all.
        settings: The file with the administrator's choices; if None, the cluster's own hold.

    Raises:
        NoClusterError: there is none, or it does not answer.
        UnreadableInputError: with the problems of the settings.
    """
    return asyncio.run(_audit_running(kubeconfig, context, namespace, chosen_settings(settings)))


def as_json(audited: Audited) -> str:
    """Everything, as one mapping."""
    return json.dumps({**audited.report.as_json(), "notes": list(audited.notes)}, indent=2, ensure_ascii=False) + "\n"


async def _audit_running(
    kubeconfig: str | None, context: str | None, namespace: str, chosen: GPUAdmissionPolicy | None
) -> Audited:
    from webhook.controllers.audit import survey_cluster  # noqa: PLC0415 - files need no client

    async with connected(kubeconfig, context) as cluster:
        check_exists(cluster.view, namespace)
        policy = chosen or cluster.settings
        survey = Survey(cluster.view, policy, namespace)

        async def take(page: list[Object]) -> None:
            survey.add(page)

        await survey_cluster(cluster.client, survey, take)
        report = audit(cluster.view, policy, survey)
        return Audited(report, (*cluster.notes, *await _uncovered_in(cluster.client, policy)))


async def _uncovered_in(client: APIClient, policy: GPUAdmissionPolicy) -> list[str]:
    from webhook.cluster.errors import APIError  # noqa: PLC0415 - files need no client
    from webhook.cluster.resources import RESOURCES  # noqa: PLC0415 - as above

    stored = []
    for kind, name in CONFIGURATIONS:
        try:
            stored.append(await client.get(RESOURCES[kind].path(name=name)))
        except APIError as error:
            if error.forbidden:
                return [f"{kind} {name} cannot be read, so it is unknown which settings it covers"]
            if not error.not_found:
                raise
    return _uncovered(stored, policy)


def _uncovered(stored: Sequence[Object], policy: GPUAdmissionPolicy) -> list[str]:
    return [f"{path}: {said}" for path, said in uncovered_settings(stored, policy)]


def _in_namespace(item: Object) -> Object:
    """The object with the namespace that kubectl would give it, were it a manifest that names none."""
    if lookup(item, ("metadata", "namespace")) or not isinstance(item.get("metadata"), dict):
        return item
    return {**item, "metadata": {**item["metadata"], "namespace": _DEFAULT_NAMESPACE}}
