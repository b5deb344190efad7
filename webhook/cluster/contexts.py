"""The contexts of kubeconfigs: their names and namespaces, read without credentials."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["SERVICE_ACCOUNT", "SERVICE_HOST", "context_names", "context_namespace"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts a pod's token and namespace, and the cluster's CA."""
SERVICE_HOST = "KUBERNETES_SERVICE_HOST"
"""The variable that is set in every pod."""

_NO_NAMESPACE = "default"


def context_namespace(
    kubeconfig: str | None,
    context: str | None,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> str:
    """The namespace of a context, as kubectl uses it without `-n`; empty if there is no such context.

    In a pod without a kubeconfig it is the namespace of the pod.

    Args:
        kubeconfig: A file, or several, separated by colons; by default KUBECONFIG, then ~/.kube/config.
        context: A name; by default that of the current context.
        environ: The environment.
        service_account: The folder with the ServiceAccount of this pod.
    """
    if not (kubeconfig or environ.get("KUBECONFIG")) and environ.get(SERVICE_HOST):
        return _text_of(service_account / "namespace")
    configs = [*_configs(kubeconfig, environ)]
    current = (config["current-context"] for config in configs if config.get("current-context"))
    fields = _contexts(configs).get(context or next(current, ""))
    return "" if fields is None else str(fields.get("namespace") or _NO_NAMESPACE)


def context_names(kubeconfig: str | None, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The names of all contexts; arguments as for `context_namespace`."""
    return tuple(_contexts([*_configs(kubeconfig, environ)]))


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _configs(kubeconfig: str | None, environ: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """The contents of the files; files that cannot be read are reported by commands that connect."""
    home = Path(environ.get("HOME") or "/", ".kube", "config")
    paths = kubeconfig or environ.get("KUBECONFIG") or str(home)
    for path in paths.split(os.pathsep):
        try:
            content = yaml.load(Path(path).expanduser().read_bytes(), yaml.CSafeLoader)
        except (OSError, yaml.YAMLError):
            continue
        if isinstance(content, dict):
            yield content


def _contexts(configs: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """The fields of each context by its name; of two contexts with one name, the first counts."""
    found: dict[str, dict[str, Any]] = {}
    for config in configs:
        entries = config.get("contexts")
        for entry in entries if isinstance(entries, list) else ():
            if isinstance(entry, dict) and isinstance(entry.get("name"), str):
                fields = entry.get("context")
                found.setdefault(entry["name"], fields if isinstance(fields, dict) else {})
    return found
