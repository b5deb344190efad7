"""Pods are created all the time while the certificates of three replicas rotate, and no call fails."""

import asyncio
import base64
import contextlib
import itertools
import ssl
from datetime import UTC, datetime, timedelta

import aiohttp
import pytest

from certs import make_authority
from certs.rotation import RotationPolicy
from webhook.cluster.resources import RESOURCES
from webhook.controllers.certificate_upkeep import ROTATE_ANNOTATION

ROTATIONS = 2
"""The second replaces an authority that rotated."""
SETTLE = timedelta(seconds=3)
"""Stands for half an hour; so do the seconds for which the callers below go on with an old bundle."""
LATEST = SETTLE.total_seconds() / 2
"""The rest is for the call that is under way: on a busy machine it takes long."""
PAUSE = 0.02
"""Seconds after each call: hundreds of calls meet each rotation, and the replicas have time for theirs."""
NAME = "gpu-admission.gpu-admission.svc"
QUICK = RotationPolicy(names=(NAME,), settle=SETTLE, look_every=timedelta(seconds=0.1))
SECRET = RESOURCES["Secret"].path("gpu-admission", "gpu-admission-certificates")


class Balancer:
    """The Service: hands each new connection to the next replica."""

    def __init__(self, ports):
        self._ports = itertools.cycle(ports)
        self._calls = {}

    async def __call__(self, reader, writer):
        call = asyncio.current_task()
        self._calls[call] = writer
        try:
            with contextlib.closing(writer):
                there_reader, there_writer = await asyncio.open_connection("127.0.0.1", next(self._ports))
                with contextlib.closing(there_writer):
                    await asyncio.gather(_pump(reader, there_writer), _pump(there_reader, writer))
        finally:
            del self._calls[call]

    async def close(self):
        """Close all connections, and wait until the other ends are closed as well."""
        for writer in self._calls.values():
            writer.close()
        if self._calls:
            await asyncio.wait([*self._calls])


async def _pump(reader, writer):
    try:
        while chunk := await reader.read(65536):
            writer.write(chunk)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


@pytest.fixture
async def service(make, sandbox, until):
    """Three replicas behind one address, all ready; gives its port."""
    replicas = [await make(rotation=QUICK, url="", port=0) for _ in range(3)]
    ready = [await replica.start() for replica in replicas]
    balancer = Balancer([each.port for each in ready])
    server = await asyncio.start_server(balancer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()[:2]
    sandbox.services["gpu-admission", "gpu-admission"] = host, port
    for replica in replicas:
        await until(replica._listeners._readiness.reasons, lambda reasons: not reasons)
    yield port
    server.close()
    await balancer.close()


class Callers:
    """API servers that open a connection for each call, and learn of a new bundle late."""

    def __init__(self, sandbox, port, review):
        self.sandbox, self.port, self.review = sandbox, port, review
        self.answered, self.failures = 0, []

    async def call_for_ever(self, late):
        loop = asyncio.get_running_loop()
        context, looked = self._context(), loop.time()
        while True:
            if loop.time() - looked >= late:
                context, looked = self._context(), loop.time()
            await self._call(context)

    def _context(self):
        webhooks = self.sandbox.get("ValidatingWebhookConfiguration", "gpu-admission")["webhooks"]
        (bundle,) = {webhook["clientConfig"]["caBundle"] for webhook in webhooks}
        return ssl.create_default_context(cadata=base64.b64decode(bundle).decode())

    async def _call(self, context):
        url = f"https://127.0.0.1:{self.port}/place-pods"
        connector = aiohttp.TCPConnector(ssl=context, force_close=True)
        try:
            async with (
                aiohttp.ClientSession(connector=connector) as session,
                session.post(url, json=self.review, server_hostname=NAME) as answer,
            ):
                assert (await answer.json())["response"]["allowed"] is True
        except Exception as error:  # noqa: BLE001 - a failure of any kind is one
            self.failures.append(repr(error))
        self.answered += 1
        await asyncio.sleep(PAUSE)


async def create_pods(alice, pod, created, failures):
    for number in itertools.count():
        try:
            stored = await alice.post(RESOURCES["Pod"].path("team-a"), pod(name=f"train-{number}"), {"dryRun": "All"})
            assert stored["spec"]["resourceClaims"]
        except Exception as error:  # noqa: BLE001 - as above
            failures.append(repr(error))
        created.append(number)
        await asyncio.sleep(PAUSE)


@pytest.mark.timeout(180)
async def test_no_call_fails_while_certificates_rotate(service, sandbox, client_of, gpu_pod, until):
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "namespace": "team-legacy",
            "object": gpu_pod(),
        },
    }
    callers, created, failures = Callers(sandbox, service, review), [], []
    tasks = [asyncio.create_task(callers.call_for_ever(late)) for late in (0.0, LATEST / 2, LATEST)]
    tasks.append(asyncio.create_task(create_pods(await client_of("alice"), gpu_pod, created, failures)))
    admin = await client_of("admin")

    def authority():
        return sandbox.get("Secret", "gpu-admission-certificates", "gpu-admission")["data"]["ca.crt"]

    try:
        for number in range(ROTATIONS):
            before, calls, pods = authority(), callers.answered, len(created)
            await admin.patch(SECRET, {"metadata": {"annotations": {ROTATE_ANNOTATION: f"rotation {number}"}}})
            await until(lambda old=before: authority() != old, bool)
            # The load goes on over what every replica and every caller learns after that.
            await until(lambda calls=calls, pods=pods: callers.answered > calls + 60 and len(created) > pods + 20, bool)
    finally:
        # The service closes only after the last call.
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
    assert (callers.failures, failures) == ([], [])


async def test_these_callers_notice_a_bundle_that_came_too_late(service, sandbox):
    """What the proof stands on: a caller that trusts another authority says so."""
    callers = Callers(sandbox, service, {})
    stranger = make_authority("a stranger", now=datetime.now(UTC))
    await callers._call(ssl.create_default_context(cadata=stranger.certificate_pem.decode()))
    assert "CERTIFICATE_VERIFY_FAILED" in callers.failures[0]
