"""The elector: of all replicas one leads, the holder of a Lease (coordination.k8s.io/v1).

Two replicas never lead at once, as long as their clocks run at the same speed but for a few percent; what the clocks
show does not matter. The holder stops leading `renew` seconds after it last began a write that succeeded. Nobody else
takes the lease before the version of that write, or a later one, has stood for the longer `lease` seconds before their
eyes, and then only with a write that fails if it changed meanwhile. Answers that were lost and writes that arrive late
do no harm to this. A lease that was deleted is made again without a holder and has to stand like any other.

What the leader does may take time to end after it was told to; the difference of `lease` and `renew` is for that. What
it writes must be safe from two leaders all the same (resourceVersions, preconditions): a machine can be suspended
between any two instructions.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from webhook.cluster.clockwork import Clockwork
from webhook.cluster.errors import APIError, ClusterError
from webhook.controllers.lease import LEASE, held_by, holder_of, released, seconds_of, unheld, version_of

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient

__all__ = ["Elector", "Timing", "new_identity"]

_logger = logging.getLogger("gpu_admission.elector")

_NEVER = -math.inf


@dataclass(frozen=True, slots=True)
class Timing:
    """How long a leader leads; all in seconds. The defaults are those of Kubernetes' own controllers."""

    lease: int = 15
    """For how long others leave the lease alone after they have seen it renewed."""
    renew: float = 10.0
    """After how long without a renewal the leader stops leading."""
    retry: float = 2.0
    """Between two attempts to take or renew the lease."""

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew < self.lease:
            raise ValueError(f"must be 0 < retry < renew < lease, and is {self.retry}, {self.renew}, {self.lease}")

    @property
    def call(self) -> float:
        """The most that reading and writing the lease may take together: one hung call leaves time for another."""
        return self.renew / 2


def new_identity(host: str) -> str:
    """A name for one run of one replica: a container that restarts is called what it was called before."""
    return f"{host}_{secrets.token_hex(4)}"


class Elector:
    """Stands for election, and runs a task for as long as it leads."""

    def __init__(
        self,
        client: APIClient,
        lease: tuple[str, str],
        identity: str,
        on_lead: Callable[[], Coroutine[Any, Any, None]],
        *,
        timing: Timing = Timing(),
        clockwork: Clockwork = Clockwork(),  # noqa: B008 - it is immutable
    ) -> None:
        """Prepare; nothing is asked before `run`.

        Args:
            client: Talks to the API server.
            lease: Namespace and name of the Lease.
            identity: Who this is; no other process, not even an earlier one, may have the same (see `new_identity`).
            on_lead: Makes what the leader runs. It is cancelled when the lease is lost or `run` is cancelled, and made
                anew when the lease is won again; it should not end by itself.
            timing: How long a leader leads.
            clockwork: Time and chance.
        """
        self._client = client
        self._namespace, self._name = lease
        self._identity = identity
        self._on_lead = on_lead
        self._timing = timing
        self._clockwork = clockwork
        self._until = _NEVER
        self._lease: Object = {}
        self._holder = ""
        self._seen: tuple[object, float] = (None, 0.0)
        self._trouble = ""

    @property
    def leading(self) -> bool:
        """Whether this replica leads at this moment."""
        return self._clockwork.clock() < self._until

    @property
    def note(self) -> str:
        """Who leads, and what keeps this replica from knowing; for readiness and logs."""
        others = self._holder != self._identity and self._holder
        leader = "this replica leads" if self.leading else f"{others} leads" if others else "nobody leads"
        return f"{leader}; {self._trouble}" if self._trouble else leader

    async def run(self) -> None:
        """Stand for election for ever.

        When it is cancelled it ends what it leads, gives the lease back, and only then comes back.
        """
        while True:
            if await self._attempt():
                await self._lead()
            await self._clockwork.sleep(self._clockwork.with_jitter(self._timing.retry))

    async def _lead(self) -> None:
        _logger.info("this replica, %s, leads now", self._identity)
        led = asyncio.create_task(self._on_lead(), name="what the leader runs")
        try:
            await self._renew_beside(led)
        finally:
            held, self._until = self.leading, _NEVER
            await self._end(led)
            if held:
                await self._release()

    async def _renew_beside(self, led: asyncio.Task[None]) -> None:
        """Come back when the lease is lost, or when the led task has ended by itself."""
        while self.leading:
            left = self._until - self._clockwork.clock()
            pause = asyncio.create_task(
                self._clockwork.sleep(min(self._clockwork.with_jitter(self._timing.retry), left))
            )
            try:
                await asyncio.wait({led, pause}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                pause.cancel()
            if led.done():
                return
            await self._attempt()
        lost = "it could not renew the lease in time" if self._holder == self._identity else f"{self._holder} does"
        _logger.warning("this replica, %s, leads no more: %s", self._identity, self._trouble or lost)

    async def _end(self, led: asyncio.Task[None]) -> None:
        by_itself = not led.cancel()
        began = self._clockwork.clock()
        await asyncio.wait({led})
        if (took := self._clockwork.clock() - began) > self._timing.lease - self._timing.renew:
            _logger.critical("what the leader ran took %.1f seconds to end; another may have led meanwhile", took)
        if led.cancelled():
            return
        if by_itself or led.exception() is not None:
            _logger.critical("what the leader runs has ended by itself; it is begun again", exc_info=led.exception())

    async def _release(self) -> None:
        try:
            async with asyncio.timeout(self._timing.call):
                await self._write(released(self._lease, self._clockwork.now()))
        except (ClusterError, TimeoutError) as error:
            _logger.warning("the lease is not given back, so nobody leads until it ends: %s", _reason(error))

    async def _attempt(self) -> bool:
        """Try once to take or to renew the lease; False also where it is unknown whether that was done."""
        limit = min(self._timing.call, self._until - self._clockwork.clock()) if self.leading else self._timing.call
        try:
            async with asyncio.timeout(limit):
                held = await self._hold()
        except (ClusterError, TimeoutError) as error:
            # That another write came first is how elections go.
            if not (isinstance(error, APIError) and (error.conflict or error.already_exists)):
                self._complain(_reason(error), None)
            return False
        except Exception as error:  # noqa: BLE001 - an election that ends lets nobody know that it has
            self._complain(f"the attempt failed: {error!r}", error)
            return False
        self._trouble = ""
        return held

    async def _hold(self) -> bool:
        lease = await self._read()
        self._holder = holder_of(lease)
        if self._holder != self._identity:
            self._until = _NEVER
            if not self._stood(lease):
                return False
        began = self._clockwork.clock()
        timing, now = self._timing, self._clockwork.now()
        self._lease = await self._write(held_by(lease, self._identity, timing.lease, now))
        self._until = began + timing.renew
        self._holder = self._identity
        return True

    def _stood(self, lease: Object) -> bool:
        """Whether this version of a lease has been there for as long as it stands."""
        # Read after the answer came: the version may be as young as that.
        version, now = version_of(lease), self._clockwork.clock()
        if version != self._seen[0]:
            self._seen = version, now
        return now - self._seen[1] > seconds_of(lease, self._timing.lease)

    async def _read(self) -> Object:
        try:
            lease: Object = await self._client.get(LEASE.path(self._namespace, self._name), timeout=self._timing.call)
        except APIError as error:
            if not error.not_found:
                raise
            made = unheld(self._namespace, self._name, self._timing.lease, self._clockwork.now())
            lease = await self._client.post(LEASE.path(self._namespace), made, timeout=self._timing.call)
        return lease

    async def _write(self, lease: Object) -> Object:
        path = LEASE.path(self._namespace, self._name)
        written: Object = await self._client.put(path, lease, timeout=self._timing.call)
        return written

    def _complain(self, trouble: str, error: Exception | None) -> None:
        """Log a trouble once, however often it comes again."""
        level = logging.DEBUG if trouble == self._trouble else logging.WARNING
        self._trouble = trouble
        _logger.log(level, "the lease is out of reach: %s", trouble, exc_info=error)


def _reason(error: ClusterError | TimeoutError) -> str:
    return "the API server has not answered in time" if isinstance(error, TimeoutError) else str(error)
