"""The contexts of kubeconfigs: their names and namespaces, read without credentials."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from policies.kubernetes.objects import DEFAULT_NAMESPACE
from webhook.cluster.credentials import SERVICE_ACCOUNT, kubeconfig_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping


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
    files = kubeconfig_files(kubeconfig, environ)
    if not files:
        try:
            return (service_account / "namespace").read_text(encoding="utf-8").strip()
        except OSError:
            return ""
    configs = [*_configs(files)]
    current = (config["current-context"] for config in configs if config.get("current-context"))
    fields = _contexts(configs).get(context or next(current, ""))
    return "" if fields is None else str(fields.get("namespace") or DEFAULT_NAMESPACE)


def context_names(kubeconfig: str | None, environ: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The names of all contexts; arguments as for `context_namespace`."""
    return tuple(_contexts([*_configs(kubeconfig_files(kubeconfig, environ))]))


def _configs(files: Iterable[str]) -> Iterator[dict[str, Any]]:
    """The contents of the files; files that cannot be read are reported by commands that connect."""
    for path in (Path(each).expanduser() for each in files):
        try:
            # A pipe or a device may never end.
            content = yaml.load(path.read_bytes(), yaml.CSafeLoader) if path.is_file() else None
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
