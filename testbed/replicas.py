"""The service under test: three `gpu-admission serve`, which the API server calls at one address."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from testbed.service import Service

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from testbed.relay import Address


COUNT = 3
_FORESEEN = "webhook.cluster.answers."


class Replica(Service):
    """One process, behind an address that it shares with others."""

    def __init__(self, kubeconfig: Path, host: str, log: Path, **options: object) -> None:
        super().__init__(kubeconfig, host, log, **options)
        self.shared = ""
        """The address at which API servers call all replicas."""
        self._lock = threading.Lock()
        self._has_ended = False

    @property
    def url(self) -> str:
        """The shared address, at which any replica answers."""
        return self.shared

    @property
    def address(self) -> Address:
        """Its own address."""
        return self._host, self._port

    def start(self) -> None:
        """Start it, unless it was stopped for good."""
        with self._lock:
            if not self._has_ended:
                super().start()

    def stop(self) -> None:
        """Stop it for good."""
        with self._lock:
            self._has_ended = True
            super().stop()

    def led_as(self, identity: str) -> bool:
        """True if this replica became the leader under an identity of the Lease."""
        return f'"this replica, {identity}, is the leader now"' in self.log()

    def suspend(self) -> None:
        """Stop its execution; its connections stay open."""
        with self._lock:
            if self._process is not None:
                self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue its execution, if it was not killed meanwhile."""
        with self._lock:
            if self._process is not None:
                self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """`kill -9`, and wait for its end."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                self._process = None


class Replicas:
    """All replicas, with the interface of one."""

    def __init__(
        self, kubeconfigs: Sequence[Path], host: str, log: Path, *, count: int = COUNT, **options: object
    ) -> None:
        """Each replica has its own log; they take turns for the kubeconfigs."""
        self._kubeconfigs, self._host, self._log, self._options = kubeconfigs, host, log, options
        self._former: list[Replica] = []
        self._all = [self._replica(number) for number in range(count)]

    def _replica(self, number: int) -> Replica:
        log = self._log.with_name(f"{self._log.name}-{number}")
        kubeconfig = self._kubeconfigs[number % len(self._kubeconfigs)]
        return Replica(kubeconfig, self._host, log, **self._options)

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._all)

    def share(self, url: str) -> None:
        """Set the address at which API servers reach them."""
        for replica in self._all:
            replica.shared = url

    def start(self) -> None:
        """Start all that do not run, and wait until all are ready."""
        with ThreadPoolExecutor(len(self._all)) as pool:
            list(pool.map(Replica.start, self._all))

    def stop(self) -> None:
        """Stop them as the kubelet does, and check that each ends with success."""
        with ThreadPoolExecutor(len(self._all)) as pool:
            list(pool.map(Replica.stop, self._all))

    def roll(self, route: Callable[[Sequence[Address]], None]) -> None:
        """Replace each by another one, which is ready before the old one stops.

        Args:
            route: Makes new connections go to these addresses only.
        """
        with ThreadPoolExecutor(len(self._all)) as pool:
            stopping = []
            for old in list(self._all):
                new = self._replica(len(self._all) + len(self._former))
                new.shared = old.shared
                new.start()
                self._all = [*(each for each in self._all if each is not old), new]
                self._former.append(old)
                route([replica.address for replica in self._all])
                stopping.append(pool.submit(old.stop))
            for each in stopping:
                each.result()

    def log(self) -> str:
        """Their output so far, and that of replaced replicas."""
        return "".join(replica.log() for replica in (*self._former, *self._all))

    def tracebacks(self) -> list[str]:
        """Unexpected failures, each once, and lines that are not from our log."""
        lines = self.log().splitlines()
        failures = [_trace(line) if line.startswith("{") else line for line in lines]
        return list(dict.fromkeys(filter(None, failures)))

    async def metric(self, name: str) -> float:
        """The sum of a metric over all labels and all replicas."""
        pages = await asyncio.gather(*(asyncio.to_thread(replica.metrics) for replica in self._all))
        lines = (line for page in pages for line in page.splitlines() if line.startswith((f"{name} ", f"{name}{{")))
        return sum(float(line.split()[-1]) for line in lines)


def _trace(line: str) -> str:
    """The traceback in a line of the log, except for errors of requests to the API server.

    A replica that was killed may have left half a line.
    """
    try:
        trace = str(json.loads(line).get("trace", ""))
    except json.JSONDecodeError:
        return ""
    return "" if trace.rpartition("\n")[2].startswith(_FORESEEN) else trace
