"""Leader election: the holder of a Lease (coordination.k8s.io/v1) leads.

Two replicas never lead at once if their clocks run at the same speed within a few percent; the time of day does not
matter. The holder stops leading `renew` seconds after it began its last successful write. Another replica takes the lease
only after it has seen the version of that write, or a later one, unchanged for the longer `lease` seconds, and only with
a write that fails if the lease changed meanwhile. Lost answers and late writes do no harm. A deleted lease is created
again without a holder, and must stay unchanged for the same time.

The leader's tasks may take time to end when they are cancelled; the difference of `lease` and `renew` is for that. Their
writes must still be safe with two leaders (resourceVersions, preconditions), because a machine can be suspended between
any two instructions.
"""

from __future__ import annotations

import asyncio
import logging
import math
import secrets
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from webhook.cluster.answers import APIError, ClusterError
from webhook.cluster.clockwork import Clockwork
from webhook.cluster.leases import (
    LEASE,
    annotations_of,
    held_lease,
    holder_of,
    new_lease,
    released_lease,
    seconds_of,
    version_of,
)
from webhook.cluster.lists import get_if_exists

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient


_logger = logging.getLogger("gpu_admission.elector")

_RELEASES = 3
"""Attempts to release the lease. A renewal that was cancelled is in the way of one of them."""
_NEVER = -math.inf


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of an election, in seconds. The defaults are those of Kubernetes' own controllers."""

    lease: int = 15
    """Other replicas do not take a lease that was renewed within this time."""
    renew: float = 10.0
    """The leader stops leading this long after its last renewal."""
    retry: float = 2.0
    """Between two attempts to take or renew the lease."""
    hand_over: float = 60.0
    """Between two times that this replica hands the lease over."""

    def __post_init__(self) -> None:
        if not 0 < self.retry < self.renew < self.lease:
            raise ValueError(f"must be 0 < retry < renew < lease, and is {self.retry}, {self.renew}, {self.lease}")

    @property
    def call(self) -> float:
        """The time-out for reading and writing the lease; leaves time for a second attempt."""
        return self.renew / 2


def new_identity(host: str) -> str:
    """A unique name for one run of a replica; a restarted container keeps its host name."""
    return f"{host}_{secrets.token_hex(4)}"


@dataclass(eq=False)
class Elector:
    """Stands for election, and runs a task for as long as it leads."""

    client: APIClient
    """Talks to the API server."""
    lease: tuple[str, str]
    """Namespace and name of the Lease."""
    identity: str
    """Unique among all processes, also earlier ones (see `new_identity`)."""
    on_lead: Callable[[], Coroutine[Any, Any, None]]
    """Returns the coroutine that the leader runs. It is cancelled when the lease is lost or `run` is cancelled, and created
    again when the lease is won again; it should not end by itself."""
    better_leader: Callable[[], str] = lambda: ""
    """Returns why another replica should lead; empty if this one should. Called at each renewal."""
    annotations: Callable[[], Mapping[str, str]] = dict
    """Returns the annotations of the lease that the leader changes; called at each renewal, and when it stops leading."""
    timing: Timing = field(default_factory=Timing)
    """Durations of the election."""
    clockwork: Clockwork = field(default_factory=Clockwork)
    """Time and randomness."""
    inherited: Mapping[str, str] = field(default_factory=dict, init=False)
    """The annotations of the lease when this replica took it."""
    _until: float = field(default=_NEVER, init=False)
    _holder: str = field(default="", init=False)
    _seen: tuple[object, float] = field(default_factory=lambda: (None, 0.0), init=False)
    _trouble: str = field(default="", init=False)
    _may_hold: bool = field(default=False, init=False)
    """True from a write that takes the lease until it is known to be released, or held by another replica."""
    _handed_over: float = field(default=_NEVER, init=False)
    """When this replica handed the lease over, by the clock."""

    def __post_init__(self) -> None:
        self._namespace, self._name = self.lease

    @property
    def is_leading(self) -> bool:
        """True if this replica leads at this moment."""
        return self.clockwork.clock() < self._until

    @property
    def note(self) -> str:
        """The current leader, and the last error, for readiness and logs."""
        others = self._holder != self.identity and self._holder
        leader = "this replica leads" if self.is_leading else f"{others} leads" if others else "no replica leads"
        return f"{leader}; {self._trouble}" if self._trouble else leader

    async def run(self) -> None:
        """Take part in the election until cancelled; then ends the led task, releases the lease, and returns."""
        try:
            while True:
                began = self.clockwork.clock()
                if await self._attempt():
                    await self._lead()
                # After a hand-over, the others come first: they take a released lease at their second look.
                retry = self.clockwork.with_jitter(self.timing.retry)
                await self.clockwork.sleep(self.timing.lease if self._handed_over >= began else retry)
        finally:
            # An attempt that was cancelled may have taken the lease.
            if self._may_hold:
                await self._release()

    async def _lead(self) -> None:
        _logger.info("this replica, %s, is the leader now", self.identity)
        led = asyncio.create_task(self.on_lead(), name="the tasks of the leader")
        try:
            await self._renew_beside(led)
        finally:
            held = self._may_hold = self.is_leading
            self._until, annotations = _NEVER, self.annotations()
            await self._end(led)
            if held:
                await self._release(annotations)

    async def _renew_beside(self, led: asyncio.Task[None]) -> None:
        """Renew the lease until it is lost, or until the led task has ended by itself."""
        while self.is_leading:
            left = self._until - self.clockwork.clock()
            pause = asyncio.create_task(self.clockwork.sleep(min(self.clockwork.with_jitter(self.timing.retry), left)))
            try:
                await asyncio.wait({led, pause}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                pause.cancel()
            if led.done():
                return
            now = self.clockwork.clock()
            if now >= self._handed_over + self.timing.hand_over and (reason := self.better_leader()):
                self._handed_over = now
                _logger.warning("this replica, %s, hands the lease over: %s", self.identity, reason)
                return
            await self._attempt()
        lost = "it could not renew the lease in time" if self._holder == self.identity else f"{self._holder} leads"
        _logger.warning("this replica, %s, is no longer the leader: %s", self.identity, self._trouble or lost)

    async def _end(self, led: asyncio.Task[None]) -> None:
        by_itself = not led.cancel()
        began = self.clockwork.clock()
        await asyncio.wait({led})
        if (took := self.clockwork.clock() - began) > self.timing.lease - self.timing.renew:
            _logger.critical(
                "the tasks of the leader took %.1f seconds to end; another replica may have led meanwhile", took
            )
        if led.cancelled():
            return
        if by_itself or led.exception() is not None:
            _logger.critical(
                "the tasks of the leader ended by themselves; they are started again", exc_info=led.exception()
            )

    async def _release(self, annotations: Mapping[str, str] = MappingProxyType({})) -> None:
        self._may_hold = False
        try:
            async with asyncio.timeout(self.timing.call):
                # Read first, and again after a conflict: a renewal that was cancelled may be stored at any moment.
                for left in reversed(range(_RELEASES)):
                    lease = await self._read()
                    if holder_of(lease) != self.identity:
                        return
                    try:
                        await self._write(released_lease(lease, self.clockwork.now(), annotations))
                    except APIError as error:
                        if not (error.is_conflict and left):
                            raise
                    else:
                        return
        except (ClusterError, TimeoutError) as error:
            _logger.warning("cannot release the lease, so no replica leads until it expires: %s", _reason(error))

    async def _attempt(self) -> bool:
        """Try once to take or renew the lease; False also if the outcome is unknown."""
        limit = min(self.timing.call, self._until - self.clockwork.clock()) if self.is_leading else self.timing.call
        try:
            async with asyncio.timeout(limit):
                held = await self._hold()
        except (ClusterError, TimeoutError) as error:
            # Another replica's write may come first at any time.
            if not (isinstance(error, APIError) and (error.is_conflict or error.already_exists)):
                self._log_once(_reason(error), None)
            return False
        except Exception as error:  # noqa: BLE001 - the election must go on
            self._log_once(f"the attempt failed: {error!r}", error)
            return False
        self._trouble = ""
        return held

    async def _hold(self) -> bool:
        lease = await self._read()
        self._holder = holder_of(lease)
        if self._holder != self.identity:
            self._until, self._may_hold = _NEVER, False
            if not self._stood(lease):
                return False
        if not self.is_leading:
            self.inherited = annotations_of(lease)
        began, seconds, now = self.clockwork.clock(), self.timing.lease, self.clockwork.now()
        annotations, self._may_hold = self.annotations() if self.is_leading else {}, True
        await self._write(held_lease(lease, self.identity, seconds, now, annotations))
        self._until = began + self.timing.renew
        self._holder = self.identity
        return True

    def _stood(self, lease: Object) -> bool:
        """True if this version of a lease has been unchanged for its duration."""
        # The clock is read after the answer, because the version may be that new.
        version, now = version_of(lease), self.clockwork.clock()
        if version != self._seen[0]:
            self._seen = version, now
        return now - self._seen[1] > seconds_of(lease, self.timing.lease)

    async def _read(self) -> Object:
        path, timeout = LEASE.path(self._namespace, self._name), self.timing.call
        lease: Object | None = await get_if_exists(self.client, path, timeout=timeout)
        if lease is None:
            new = new_lease(self._namespace, self._name, self.timing.lease, self.clockwork.now())
            lease = await self.client.post(LEASE.path(self._namespace), new, timeout=timeout)
        return lease

    async def _write(self, lease: Object) -> None:
        await self.client.put(LEASE.path(self._namespace, self._name), lease, timeout=self.timing.call)

    def _log_once(self, trouble: str, error: Exception | None) -> None:
        """Log a new trouble; a repeated one only as debug message."""
        level = logging.DEBUG if trouble == self._trouble else logging.WARNING
        self._trouble = trouble
        _logger.log(level, "the lease cannot be read or renewed: %s", trouble, exc_info=error)


def _reason(error: ClusterError | TimeoutError) -> str:
    return "the API server has not answered in time" if isinstance(error, TimeoutError) else str(error)
