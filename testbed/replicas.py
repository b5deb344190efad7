"""The service under test: three `gpu-admission serve`, which the API server calls at one address."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from testbed.service import Service

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from testbed.relay import Address

__all__ = ["COUNT", "Replica", "Replicas"]

COUNT = 3
_FORESEEN = "webhook.cluster.errors."


class Replica(Service):
    """One process, behind an address that it shares with others."""

    def __init__(self, kubeconfig: Path, host: str, log: Path, **options: object) -> None:
        super().__init__(kubeconfig, host, log, **options)
        self.shared = ""
        """Where API servers call all replicas."""
        self._lock = threading.Lock()
        self._has_ended = False

    @property
    def url(self) -> str:
        """Where the API server calls it: there, one of all answers."""
        return self.shared

    @property
    def address(self) -> Address:
        """Where it listens."""
        return self._host, self._port

    def start(self) -> None:
        """Start it, unless everything is at its end."""
        with self._lock:
            if not self._has_ended:
                super().start()

    def stop(self) -> None:
        """Stop it for good."""
        with self._lock:
            self._has_ended = True
            super().stop()

    def led_as(self, identity: str) -> bool:
        """Whether it was this one that became the leader under an identity of the Lease."""
        return f'"this replica, {identity}, leads now"' in self.log()

    def kill(self) -> None:
        """`kill -9`, and wait for its end."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                self._process = None


class Replicas:
    """All of them; where one is asked for, all are."""

    def __init__(self, kubeconfig: Path, host: str, log: Path, **options: object) -> None:
        """Args: as for one; each has a log of its own."""
        logs = [log.with_name(f"{log.name}-{number}") for number in range(COUNT)]
        self._all = [Replica(kubeconfig, host, each, **options) for each in logs]

    def __iter__(self) -> Iterator[Replica]:
        return iter(self._all)

    def share(self, url: str) -> None:
        """Tell them under which address API servers reach them."""
        for replica in self._all:
            replica.shared = url

    def start(self) -> None:
        """Start those that do not run, and wait until all are ready."""
        with ThreadPoolExecutor(COUNT) as pool:
            list(pool.map(Replica.start, self._all))

    def stop(self) -> None:
        """Stop them as the kubelet would, and see that each ends as it should."""
        with ThreadPoolExecutor(COUNT) as pool:
            list(pool.map(Replica.stop, self._all))

    def log(self) -> str:
        """What they printed so far."""
        return "".join(replica.log() for replica in self._all)

    def tracebacks(self) -> list[str]:
        """Failures that nobody foresaw, each once; also what is printed by no log of ours."""
        lines = self.log().splitlines()
        told = [_trace(line) if line.startswith("{") else line for line in lines]
        return list(dict.fromkeys(filter(None, told)))

    async def metric(self, name: str) -> float:
        """The sum of a metric over all labels and all replicas."""
        pages = await asyncio.gather(*(asyncio.to_thread(replica.metrics) for replica in self._all))
        lines = (line for page in pages for line in page.splitlines() if line.startswith((f"{name} ", f"{name}{{")))
        return sum(float(line.split()[-1]) for line in lines)


def _trace(line: str) -> str:
    """The traceback in a line of the log, unless it tells that the API server could not be reached.

    A replica that was killed may have left half a line.
    """
    try:
        trace = str(json.loads(line).get("trace", ""))
    except json.JSONDecodeError:
        return ""
    return "" if trace.rpartition("\n")[2].startswith(_FORESEEN) else trace
