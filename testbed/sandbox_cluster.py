"""The sandbox as a cluster for scenarios."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from certs import issue_serving, make_authority
from testbed.clusters import Cluster
from testbed.connection import connect
from testbed.deploy import USER
from webhook.sandbox.server import Sandbox
from webhook.sandbox.users import token_of

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from testbed.api import Headers
    from testbed.background import Background


_HOST = "127.0.0.1"


class SandboxCluster(Cluster):
    """A sandbox of this process, served over TLS, and the service."""

    def __init__(
        self, background: Background, folder: Path, *, version: str = "1.36.0", feature_gates: Iterable[str] = ()
    ) -> None:
        now = datetime.now(UTC)
        authority = make_authority("sandbox of tests", now=now)
        serving = issue_serving(authority, [_HOST], now=now)
        self.sandbox = Sandbox(version=version, feature_gates=feature_gates)
        self._start = partial(self.sandbox.start, _HOST, tls=serving, authority=authority.certificate_pem)
        background.run(self._start())
        admin = _write_file(folder / "admin", self.sandbox.kubeconfig())
        super().__init__(connect(background, admin), admin, is_real=False)
        self._background = background
        self._folder = folder

    def begin(self) -> None:
        """Install everything and start the service."""
        self.install()
        self.serve(_write_file(self._folder / "service", self.sandbox.kubeconfig(USER)), _HOST, self._folder / "log")

    def upgrade(self, version: str) -> None:
        """Restart the API server as another version of Kubernetes."""
        port = urlsplit(self.sandbox.url).port or 0
        self._background.run(self.sandbox.stop())
        self.sandbox.upgrade(version)
        self._background.run(self._start(port=port))

    def close(self) -> None:
        """Stop the service and the sandbox."""
        super().close()
        self.api.close()
        self._background.run(self.sandbox.stop())

    def _headers_of(self, user: str, groups: tuple[str, ...]) -> Headers:
        return [("Authorization", f"Bearer {token_of(user, *groups)}")]


def _write_file(file: Path, text: str) -> Path:
    file.write_text(text)
    return file
