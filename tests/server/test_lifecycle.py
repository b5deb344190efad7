"""The run of a server, from its start to a signal."""

import gc
import os
import signal
import sys

import pytest

from webhook.server.lifecycle import run


class Server:
    """Notes the switch interval when it starts, and is stopped by a signal."""

    switch_seconds = None

    async def start(self):
        self.switch_seconds = sys.getswitchinterval()
        return "ready"

    async def drain(self, hurry):
        pass

    async def close(self):
        pass


@pytest.fixture(autouse=True)
def _restored_interpreter():
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)
    gc.unfreeze()


async def test_threads_switch_often_from_the_start():
    """The warm-up computes in a thread for a second before the server is ready, and probes are answered meanwhile."""
    server = Server()
    await run(server, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert server.switch_seconds == pytest.approx(0.0005)
