"""The pauses between looks at the webhook configurations end when one of them changes."""

import asyncio
import contextlib

import pytest

from testbed.waiting import until_right
from tests.certificates.conftest import CONFIGURATIONS
from tests.sandbox import faults
from webhook.cluster.clockwork import Clockwork, Pace
from webhook.controllers.ca_bundles import ConfigurationWatch

LONG = 30.0


class Pauses:
    """Short pauses end at once, and long ones when the test says so."""

    def __init__(self):
        self.begun, self.end = asyncio.Event(), asyncio.Event()

    async def sleep(self, seconds):
        if seconds < LONG - 1:
            await asyncio.sleep(0)
            return
        self.begun.set()
        await self.end.wait()


@pytest.fixture
def pauses():
    return Pauses()


@pytest.fixture
async def watch(installation, pauses):
    """A watch that has seen the configurations as they are."""
    watch = ConfigurationWatch(installation.api, CONFIGURATIONS, Pace(clockwork=Clockwork(sleep=pauses.sleep)))
    watching = installation.sandbox.faults.add(faults.latency(0), verb="WATCH")
    running = asyncio.create_task(watch.run())

    async def unwatched():
        return "" if watching.hits == len(CONFIGURATIONS) else "not all are watched"

    await until_right(unwatched, 10)
    await watch.clockwork.sleep(LONG)  # the first lists are changes
    yield watch
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running


async def begin_pause(watch, pauses):
    pauses.begun.clear()
    pause = asyncio.create_task(watch.clockwork.sleep(LONG))
    await pauses.begun.wait()
    return pause


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
async def test_a_changed_configuration_ends_a_pause(installation, watch, pauses, kind):
    pause = await begin_pause(watch, pauses)
    installation.overwrite(kind, b"another")
    await pause


async def test_a_change_during_a_look_ends_the_next_pause(installation, watch, pauses):
    installation.overwrite("Mutating", b"another")
    await watch.clockwork.sleep(LONG)


async def test_without_a_change_a_pause_has_its_length(watch, pauses):
    pause = await begin_pause(watch, pauses)
    await asyncio.sleep(0)
    assert not pause.done()
    pauses.end.set()
    await pause


async def test_a_lost_bundle_is_written_when_it_is_lost(installation, pauses, watch):
    replica, _ = await installation.served()
    replica.clockwork = watch.clockwork
    upkeep = asyncio.create_task(replica.run())
    await pauses.begun.wait()
    authorities = installation.bundles()
    pauses.begun.clear()
    installation.overwrite("Validating", b"")
    await pauses.begun.wait()
    assert installation.bundles() == authorities
    upkeep.cancel()


async def test_pauses_have_their_length_if_watching_is_forbidden(installation, pauses):
    kinds = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
    for kind in kinds:
        path = f"/apis/admissionregistration.k8s.io/v1/{kind}"
        installation.sandbox.faults.add(faults.failing(403, "no lists for you"), path=path)
    watch = ConfigurationWatch(installation.api, CONFIGURATIONS, Pace(clockwork=Clockwork(sleep=pauses.sleep)))
    running = asyncio.create_task(watch.run())
    await pauses.begun.wait()
    pauses.end.set()
    await watch.clockwork.sleep(LONG)
    assert not running.done()
    running.cancel()
