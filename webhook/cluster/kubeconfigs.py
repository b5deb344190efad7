"""Where kubeconfigs and the files of a ServiceAccount are."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["SERVICE_ACCOUNT", "SERVICE_HOST", "kubeconfig_files"]

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where the kubelet mounts a pod's token and namespace, and the cluster's CA."""
SERVICE_HOST = "KUBERNETES_SERVICE_HOST"
"""The variable that is set in every pod."""


def kubeconfig_files(kubeconfig: str | None, environ: Mapping[str, str]) -> list[str]:
    """The kubeconfigs that kubectl would use.

    They are the given ones, else those of KUBECONFIG, else ~/.kube/config; a pod without the first two has none. Files
    may not exist. Several are separated by colons; empty parts are skipped, as in kubectl.
    """
    named = [path for path in (kubeconfig or environ.get("KUBECONFIG") or "").split(os.pathsep) if path]
    if named or environ.get(SERVICE_HOST):
        return named
    return [str(Path(environ.get("HOME") or "/", ".kube", "config"))]
