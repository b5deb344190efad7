"""What deploy/install.yaml has, for a service that runs outside of the cluster."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["ACCOUNT", "NAMESPACE", "USER", "installed", "operator_access", "outside"]

NAMESPACE = "gpu-admission"
ACCOUNT = "gpu-admission"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"

_DEPLOY = Path(__file__).parents[1] / "deploy"
_INSIDE = ("Deployment", "NetworkPolicy", "PodDisruptionBudget", "ResourceQuota", "Service")
"""Kinds that only a service inside of the cluster needs."""


def installed() -> list[dict[str, Any]]:
    """Everything."""
    return list(_documents(_DEPLOY / "install.yaml"))


def outside() -> list[dict[str, Any]]:
    """What a service outside of the cluster needs too; its webhooks are called by URL, as overlays/dev-by-url has it."""
    return [_by_url(document) for document in installed() if document["kind"] not in _INSIDE]


def operator_access() -> dict[str, Any]:
    """What lets the service read the namespace of the GPU Operator."""
    (binding,) = _documents(_DEPLOY / "components" / "gpu-operator" / "role-binding.yaml")
    return binding


def _by_url(document: dict[str, Any]) -> dict[str, Any]:
    if "webhooks" not in document:
        return document
    kind = document["kind"].removesuffix("WebhookConfiguration").lower()
    (overlay,) = _documents(_DEPLOY / "overlays" / "dev-by-url" / f"{kind}.yaml")
    urls = {webhook["name"]: webhook["clientConfig"]["url"] for webhook in overlay["webhooks"]}
    called = [{**webhook, "clientConfig": {"url": urls[webhook["name"]]}} for webhook in document["webhooks"]]
    return {**document, "webhooks": called}


def _documents(file: Path) -> Iterator[dict[str, Any]]:
    return (document for document in yaml.safe_load_all(file.read_text()) if document)
