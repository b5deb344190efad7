"""The objects of deploy/install.yaml, for a service that runs outside the cluster."""

from __future__ import annotations

import pickle
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed import libyaml

if TYPE_CHECKING:
    from collections.abc import Iterator


NAMESPACE = "gpu-admission"
ACCOUNT = "gpu-admission"
USER = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"

_DEPLOY = Path(__file__).parents[1] / "deploy"
_INSIDE = ("Deployment", "NetworkPolicy", "PodDisruptionBudget", "ResourceQuota", "Service")
"""Kinds that only a service inside the cluster needs."""


def all_objects() -> list[dict[str, Any]]:
    """All objects of deploy/install.yaml."""
    return list(_documents(_DEPLOY / "install.yaml"))


def objects_outside() -> list[dict[str, Any]]:
    """The objects for a service outside the cluster, called by URL as in overlays/dev-by-url."""
    return [_by_url(document) for document in all_objects() if document["kind"] not in _INSIDE]


def operator_access() -> dict[str, Any]:
    """The RoleBinding to read the namespace of the GPU Operator."""
    (binding,) = _documents(_DEPLOY / "components" / "gpu-operator" / "role-binding.yaml")
    return binding


def explain_on_pods() -> list[dict[str, Any]]:
    """The objects that allow gpu-admission to write to pods why they wait."""
    return list(_documents(_DEPLOY / "components" / "explain-on-pods" / "rbac.yaml"))


def _by_url(document: dict[str, Any]) -> dict[str, Any]:
    if "webhooks" not in document:
        return document
    kind = document["kind"].removesuffix("WebhookConfiguration").lower()
    (overlay,) = _documents(_DEPLOY / "overlays" / "dev-by-url" / f"{kind}.yaml")
    urls = {webhook["name"]: webhook["clientConfig"]["url"] for webhook in overlay["webhooks"]}
    called = [{**webhook, "clientConfig": {"url": urls[webhook["name"]]}} for webhook in document["webhooks"]]
    return {**document, "webhooks": called}


def _documents(file: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file, which the caller may change."""
    yield from pickle.loads(_pickled_documents(file))


@cache
def _pickled_documents(file: Path) -> bytes:
    return pickle.dumps([document for document in libyaml.load_all(file.read_text()) if document])
