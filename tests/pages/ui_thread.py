"""The page's port and its API server in a thread of their own, for tests that drive a browser."""

from datetime import UTC, datetime

from certs import issue_serving, make_authority
from testbed.background import Background
from tests.sandbox.faults import FaultySandbox
from tests.server.explain.rights import OURS, Clock, Rights, delegated_gate
from tests.server.ui.serving import served_ui
from webhook.server.report_streams import StreamTimes

TIMES = StreamTimes(between=0.05, beat=0.5)


class UIThread:
    """Serves the page while a test runs; `call` runs something in its event loop."""

    def __init__(self, folder):
        self.rights = Rights()
        self.clock = Clock()
        self._folder = folder
        self._background = Background()
        self._authority = make_authority("test authority", now=datetime.now(UTC))
        self.api = self._gate = self._served = self.ui = None
        self._run(self._start_api())

    @property
    def url(self):
        return f"https://localhost:{self.ui.port}"

    def serve(self, view, **options):
        """Serve the page about a cluster; returns its address."""
        self._run(self._serve(view, options))
        return f"{self.url}/ui"

    def stop_serving(self):
        """Stop, unless nothing is served."""
        if self._served is not None:
            self._run(self._served.__aexit__(None, None, None))
            self._served = None

    def call(self, function, *arguments):
        """The result of a function that is called in the event loop."""

        async def run():
            return function(*arguments)

        return self._run(run())

    def close(self):
        self.stop_serving()
        self._run(self._close())
        self._background.close()

    def _run(self, coroutine):
        return self._background.run(coroutine)

    async def _start_api(self):
        self.api = FaultySandbox(seed=1, allows=self.rights)
        pair = issue_serving(self._authority, ["127.0.0.1"], now=datetime.now(UTC))
        await self.api.start(tls=pair, authority=self._authority.certificate_pem)
        kubeconfig = self._folder / "kubeconfig"
        kubeconfig.write_text(self.api.kubeconfig(OURS))
        self._gate = delegated_gate(kubeconfig, self.clock)
        self._admits = await self._gate.__aenter__()

    async def _serve(self, view, options):
        self._served = served_ui(view, self._admits, self._authority, self.clock, **{"times": TIMES, **options})
        self.ui = await self._served.__aenter__()

    async def _close(self):
        await self._gate.__aexit__(None, None, None)
        await self.api.stop()
