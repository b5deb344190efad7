"""The sandbox as a cluster for scenarios."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

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

    def __init__(self, background: Background, folder: Path, *, feature_gates: Iterable[str] = ()) -> None:
        now = datetime.now(UTC)
        authority = make_authority("sandbox of tests", now=now)
        serving = issue_serving(authority, [_HOST], now=now)
        self.sandbox = Sandbox(feature_gates=feature_gates)
        background.run(self.sandbox.start(_HOST, tls=serving, authority=authority.certificate_pem))
        admin = _write_file(folder / "admin", self.sandbox.kubeconfig())
        super().__init__(connect(background, admin), admin, is_real=False)
        self._background = background
        self._folder = folder

    def begin(self) -> None:
        """Install everything and start the service."""
        self.install()
        self.serve(_write_file(self._folder / "service", self.sandbox.kubeconfig(USER)), _HOST, self._folder / "log")

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
