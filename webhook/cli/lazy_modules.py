"""Modules that are imported only when they are used: help and most reviews need few of them."""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["lazy_module"]

_MODULES = {
    "command review": "webhook.cli.review",
    "command explain": "webhook.cli.explain",
    "command audit": "webhook.cli.audit",
    "command quota": "webhook.cli.quota",
    "command rules": "webhook.cli.rules",
    "command serve": "webhook.cli.serve",
    "command sandbox": "webhook.cli.sandbox",
    "command demo": "webhook.cli.demo",
    "reviews": "webhook.cli.reviews",
    "explanations": "webhook.cli.explanations",
    "explanations as text": "webhook.cli.explain_text",
    "audits": "webhook.cli.audits",
    "audits as text": "webhook.cli.audit_text",
    "quotas": "webhook.cli.quotas",
    "quotas as text": "webhook.cli.quota_text",
    "running clusters": "webhook.cli.running_clusters",
    "start of the server": "webhook.cli.server_start",
    "start of the sandbox": "webhook.cli.sandbox_start",
    "AdmissionReviews": "webhook.server.admission_review",
    "patterns of a .gitignore": "pathspec",
    "JSON": "orjson",
    "printable text": "policies.kubernetes.printable",
}


def lazy_module(name: str) -> Any:
    """The module with a name of the table above, imported at the first call."""
    return import_module(_MODULES[name])
