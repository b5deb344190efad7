"""Modules that are imported only when they are used: help and most reviews need few of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from webhook.cli.review_outputs import FORMATS

__all__ = ["MODULES", "lazy_module"]

MODULES = {
    "command review": "webhook.cli.commands.review",
    "command test": "webhook.cli.commands.test",
    "command migrate": "webhook.cli.commands.migrate",
    "command explain": "webhook.cli.commands.explain",
    "command cel": "webhook.cli.commands.cel",
    "command plan": "webhook.cli.commands.plan",
    "command audit": "webhook.cli.commands.audit",
    "command quota": "webhook.cli.commands.quota",
    "command usage": "webhook.cli.commands.usage",
    "command report": "webhook.cli.commands.report",
    "command preflight": "webhook.cli.commands.preflight",
    "command doctor": "webhook.cli.commands.doctor",
    "command snapshot": "webhook.cli.commands.snapshot",
    "command generate": "webhook.cli.commands.generate",
    "command rules": "webhook.cli.commands.rules",
    "command serve": "webhook.cli.commands.serve",
    "command sandbox": "webhook.cli.commands.sandbox",
    "command demo": "webhook.cli.commands.demo",
    "command apply-webhooks": "webhook.cli.commands.apply_webhooks",
    "command delete-webhooks": "webhook.cli.commands.delete_webhooks",
    "command completion": "webhook.cli.commands.completion",
    "completion values": "webhook.cli.completion_values",
    "file reviews": "webhook.cli.file_reviews",
    "baselines": "webhook.cli.baselines",
    **{f"review output {name}": f"webhook.cli.review_outputs.{name}" for name in FORMATS},
    "explanations": "webhook.cli.explanations",
    "live explanations": "webhook.cli.running_clusters.live_explanations",
    "pages of explanations": "webhook.pages.explanation",
    "pictures of explanations": "webhook.pages.explanation_picture",
    "analyses of selectors": "webhook.cli.selector_analyses",
    "pages of selectors": "webhook.pages.selectors",
    "audit reports": "webhook.cli.audit_reports",
    "quota reports": "webhook.cli.quota_reports",
    "plans": "webhook.cli.plans",
    "plan reports": "webhook.cli.plan_reports",
    "generation of sharing": "policies.generation.sharing",
    "generation of MIG layouts": "policies.generation.mig",
    "generation of quotas": "policies.generation.quotas",
    "generation of claims": "policies.generation.claims",
    "generation of wishes": "policies.generation.wishes",
    "generated text": "webhook.cli.generated_text",
    "usage reports": "webhook.cli.usage_reports",
    "usage text": "webhook.cli.usage_text",
    "live usage": "webhook.cli.running_clusters.live_usage",
    "pages of clusters": "webhook.cli.cluster_pages",
    "pages of running clusters": "webhook.cli.running_clusters.live_pages",
    "live audits": "webhook.cli.running_clusters.live_audits",
    "live quotas": "webhook.cli.running_clusters.live_quotas",
    "live facts": "webhook.cli.running_clusters.live_facts",
    "progress": "webhook.cli.progress",
    "migrations": "webhook.cli.migrations.runs",
    "webhook changes": "webhook.cli.webhook_changes.changes",
    "suites": "webhook.cli.suites.runs",
    "suite reports": "webhook.cli.suites.reports",
    "proofs of migrations": "webhook.cli.migrations.proofs",
    "check reports": "webhook.cli.check_reports",
    "preflights": "webhook.cli.preflight.runs",
    "preflight reports": "webhook.cli.preflight.report",
    "diagnoses": "webhook.cli.doctor.runs",
    "diagnosis reports": "webhook.cli.doctor.report",
    "snapshots": "webhook.cli.snapshots.writer",
    "start of the server": "webhook.cli.server_start",
    "start of the sandbox": "webhook.cli.sandbox_start",
    "AdmissionReviews": "webhook.server.admission_review",
    "patterns of a .gitignore": "pathspec",
    "JSON": "orjson",
    "API client": "webhook.cluster.client",
    "contexts": "webhook.cluster.contexts",
    "lookups": "webhook.cluster.lookups",
    "manifest reader": "webhook.cli.manifest_reader",
    "manifests": "webhook.cluster.manifests",
    "resources": "webhook.cluster.resources",
    "rules": "webhook.cli.commands.rules",
    "names of objects": "policies.kubernetes.names",
    "known products": "policies.nvidia.known_products",
    "pod conditions": "policies.pod_conditions",
    "printable text": "policies.kubernetes.printable",
}
"""Their names by what they are for."""


def lazy_module(name: str) -> Any:
    """The module with a name of the table above, imported at the first call."""
    return import_module(MODULES[name])
