"""Audits of clusters in files, and audits as JSON."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from policies.audit import Survey, audit
from policies.entries import CONFIGURATIONS
from policies.settings.installed import uncovered_settings
from policies.view import UNKNOWN
from webhook.cli.options import check_namespace_exists
from webhook.cli.settings import read_cluster_files
from webhook.cli.subjects import DEFAULT_NAMESPACE, in_namespace
from webhook.cluster.manifests import ManifestsView, unwrap_lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.audit import AuditReport
    from policies.kubernetes.objects import Object
    from policies.settings import GPUAdmissionPolicy

__all__ = ["Audited", "as_json", "audit_files", "uncovered_notes"]

# The report and errors say what goes wrong; without a handler, Python would print the log messages as well.
logging.getLogger("gpu_admission").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Audited:
    """A report, and notes on settings and on kinds that cannot be read."""

    report: AuditReport
    notes: tuple[str, ...]
    """Sentences without full stops."""


def audit_files(cluster: Sequence[str], namespace: str, settings: str | None) -> Audited:
    """Audit a cluster in files.

    Args:
        cluster: Files and folders.
        namespace: The only namespace to look into; empty for all.
        settings: The file with the administrator's settings; if None, the GPUAdmissionPolicy among the objects.

    Raises:
        UnreadableInputError: Files have problems.
        click.UsageError: The files have no objects, or the namespace does not exist.
    """
    files = read_cluster_files(cluster, settings)
    objects = [in_namespace(item, DEFAULT_NAMESPACE) for fact in files.facts for item in unwrap_lists(fact)]
    if not objects:
        raise click.UsageError(f"nothing to audit: no objects in {', '.join(cluster)}")
    view = ManifestsView(files.facts)
    check_namespace_exists(view, namespace)
    survey = Survey(view, files.settings, namespace)
    survey.add(objects)
    for _, kind in survey.kinds:
        if view.list(kind) is UNKNOWN:
            survey.miss(kind)
    stored = [found for kind, name in CONFIGURATIONS if isinstance(found := view.get(kind, name), dict)]
    notes = (*files.notes, *uncovered_notes(stored, files.settings))
    return Audited(audit(view, files.settings, survey), notes)


def as_json(audited: Audited) -> str:
    """The report and the notes as one mapping."""
    return json.dumps({**audited.report.as_json(), "notes": list(audited.notes)}, indent=2, ensure_ascii=False) + "\n"


def uncovered_notes(stored: Sequence[Object], policy: GPUAdmissionPolicy) -> list[str]:
    """Notes on settings that the stored webhook configurations do not cover."""
    return [f"{path}: {sentence}" for path, sentence in uncovered_settings(stored, policy)]
