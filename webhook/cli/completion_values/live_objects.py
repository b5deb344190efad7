"""Objects of the running cluster, read by kubectl: our own client would import kubernetes-asyncio."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object

__all__ = ["live_objects"]

_SECONDS = 1.5
"""Time limit for a cluster to answer; a user who presses TAB waits."""
_MOST = 500
"""The most objects that are listed."""


def live_objects(kubeconfig: str | None, context: str | None, path: str) -> list[Object]:
    """The objects of a path of the API.

    Raises:
        OSError: kubectl is not installed.
        subprocess.SubprocessError: kubectl failed or did not answer in time.
    """
    command = ["kubectl", "get", "--raw", f"{path}?limit={_MOST}", *(["--context", context] if context else [])]
    environ = {**os.environ, **({"KUBECONFIG": kubeconfig} if kubeconfig else {})}
    # Without input, a credential plugin cannot wait for a password.
    done = subprocess.run(  # noqa: S603 - no shell reads the arguments
        command, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=_SECONDS, check=True
    )
    listed: list[Object] = json.loads(done.stdout)["items"]
    return listed
