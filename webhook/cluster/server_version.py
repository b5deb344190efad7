"""The version of the API server, asked again now and then: clusters are upgraded under our feet."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import lookup
from policies.view import UNKNOWN, Unknown
from webhook.cluster.errors import ClusterError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import NoReturn

    from webhook.cluster.reader import Reader

__all__ = ["ServerVersion", "read_version"]

_EVERY_SECONDS = 300.0
_AGAIN_SECONDS = 10.0
_NUMBER = re.compile(r"\d+")

_logger = logging.getLogger("gpu_admission.cluster")


class ServerVersion:
    """Asks `/version`, which every authenticated client may read."""

    def __init__(self, client: Reader, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        """Args: whom to ask, and what waits."""
        self._client = client
        self._sleep = sleep
        self._told = ""

    async def ask_for_ever(self, take: Callable[[tuple[int, int] | Unknown], None]) -> NoReturn:
        """Hand over the version every 5 minutes; while there is no answer, the last one holds."""
        while True:
            await self._sleep(await self.ask(take))

    async def ask(self, take: Callable[[tuple[int, int] | Unknown], None]) -> float:
        """Ask once, hand over the answer, and say after how many seconds to ask again."""
        try:
            take(read_version(await self._client.get("/version")))
        except ClusterError as error:
            # Once, however often it comes again.
            level = logging.DEBUG if str(error) == self._told else logging.WARNING
            self._told = str(error)
            _logger.log(level, "the API server does not tell its version: %s", error)
            return _AGAIN_SECONDS
        self._told = ""
        return _EVERY_SECONDS


def read_version(answer: Any) -> tuple[int, int] | Unknown:
    """Major and minor version; managed clusters write `36+` as the minor one.

    An API server that runs with `--emulated-version` behaves as the older one and drops fields that it does not know, as
    during upgrades; it says so beside its own version, seen on 1.36.2.
    """
    return _version(answer, "emulationMajor", "emulationMinor") or _version(answer, "major", "minor") or UNKNOWN


def _version(answer: Any, *parts: str) -> tuple[int, int] | None:
    numbers = [_NUMBER.match(str(lookup(answer, (part,)) or "")) for part in parts]
    major, minor = (int(number[0]) if number else None for number in numbers)
    return None if major is None or minor is None else (major, minor)
