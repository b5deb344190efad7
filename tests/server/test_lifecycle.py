"""The run of a server, from its start to a signal."""

import gc
import os
import signal
import sys

import pytest

from webhook.server.listeners import run


class Server:
    """Notes the settings of the interpreter when it starts, and is stopped by a signal."""

    switch_seconds = None
    collection_thresholds = None

    async def start(self):
        self.switch_seconds = sys.getswitchinterval()
        self.collection_thresholds = gc.get_threshold()
        return "ready"

    async def drain(self, hurry):
        pass

    async def close(self):
        pass


@pytest.fixture(autouse=True)
def _restored_interpreter():
    seconds, thresholds = sys.getswitchinterval(), gc.get_threshold()
    yield
    sys.setswitchinterval(seconds)
    gc.set_threshold(*thresholds)


async def test_threads_switch_often_from_the_start():
    """The warm-up computes in a thread for a second before the server is ready, and probes are answered meanwhile."""
    server = Server()
    await run(server, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert server.switch_seconds == pytest.approx(0.0005)


async def test_a_page_of_a_list_starts_no_collection():
    """A full collection traverses the digests of the cluster; a list of 100,000 pods must not start hundreds of them."""
    server = Server()
    await run(server, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    objects_of_a_page = 100 * 150
    assert server.collection_thresholds[0] > objects_of_a_page
