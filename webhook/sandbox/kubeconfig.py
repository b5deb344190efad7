"""The kubeconfig with which clients reach a server of the sandbox."""

from __future__ import annotations

import base64

import yaml

__all__ = ["is_of_a_sandbox", "kubeconfig"]

_NAME = "gpu-admission-sandbox"


def kubeconfig(url: str, certificate_authority: bytes | None, token: str) -> str:
    """The text of a kubeconfig.

    Args:
        url: Of the server.
        certificate_authority: PEM; None where the server speaks plain HTTP.
        token: The bearer token, which in the sandbox is the user; empty for the administrator.
    """
    cluster: dict[str, object] = {"server": url}
    if certificate_authority is not None:
        cluster["certificate-authority-data"] = base64.b64encode(certificate_authority).decode()
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": _NAME, "cluster": cluster}],
        "users": [{"name": _NAME, "user": {"token": token} if token else {}}],
        "contexts": [{"name": _NAME, "context": {"cluster": _NAME, "user": _NAME}}],
        "current-context": _NAME,
    }
    return yaml.safe_dump(document, sort_keys=False)


def is_of_a_sandbox(text: str) -> bool:
    """Whether a file holds a kubeconfig as it is written here and nothing else, so that nothing is lost with it."""
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError:
        return False
    if not isinstance(document, dict):
        return False
    return all(_names(document.get(part)) == [_NAME] for part in ("clusters", "users", "contexts"))


def _names(entries: object) -> list[object]:
    return [entry.get("name") for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
