"""Connections by kubeconfigs, with certificates, tokens, plug-ins and proxies."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from testbed.api import API
from webhook.cluster.credentials import SERVICE_ACCOUNT, find_credentials

if TYPE_CHECKING:
    from pathlib import Path

    from testbed.background import Background


def connect(background: Background, kubeconfig: Path) -> API:
    """The API server of a kubeconfig."""

    async def open_connection() -> API:
        environ = {**os.environ, "KUBECONFIG": ""}
        credentials = await find_credentials(str(kubeconfig), None, environ=environ, service_account=SERVICE_ACCOUNT)
        return await API.connect(background, credentials)

    return background.run(open_connection())
