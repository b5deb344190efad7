"""The version of the API server, read again every five minutes, because clusters are upgraded."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import lookup
from policies.kubernetes.view import UNKNOWN, Unknown
from webhook.cluster.errors import APIError, ClusterError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import NoReturn

    from webhook.cluster.reader import Reader

__all__ = ["ServerVersion", "parse_version", "read_version"]

_EVERY_SECONDS = 300.0
_RETRY_SECONDS = 10.0
_NUMBER = re.compile(r"\d+")

_logger = logging.getLogger("gpu_admission.cluster")


class ServerVersion:
    """Reads `/version`, which is open to every authenticated client."""

    def __init__(self, client: Reader, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._client = client
        self._sleep = sleep
        self._logged = ""

    async def run(self, take: Callable[[tuple[int, int] | Unknown], None]) -> NoReturn:
        """Pass the version to `take` every 5 minutes; without an answer, the last one stays."""
        while True:
            await self._sleep(await self.read(take))

    async def read(self, take: Callable[[tuple[int, int] | Unknown], None]) -> float:
        """Read once, and pass the version to `take`; returns the seconds until the next read."""
        try:
            take(parse_version(await self._client.get("/version")))
        except ClusterError as error:
            # A repeated error is logged once.
            level = logging.DEBUG if str(error) == self._logged else logging.WARNING
            self._logged = str(error)
            _logger.log(level, "cannot read the version of the API server: %s", error)
            return _RETRY_SECONDS
        self._logged = ""
        return _EVERY_SECONDS


async def read_version(client: Reader) -> Any:
    """The version as the API server states it; None if RBAC hides it."""
    try:
        return await client.get("/version")
    except APIError as error:
        if not error.is_forbidden:
            raise
        return None


def parse_version(answer: Any) -> tuple[int, int] | Unknown:
    """Major and minor version; managed clusters write the minor version as `36+`.

    An API server with `--emulated-version` behaves as the older version and drops newer fields, as during upgrades. It
    reports that version too; seen on 1.36.2.
    """
    return _version(answer, "emulationMajor", "emulationMinor") or _version(answer, "major", "minor") or UNKNOWN


def _version(answer: Any, *parts: str) -> tuple[int, int] | None:
    numbers = [_NUMBER.match(str(lookup(answer, (part,)) or "")) for part in parts]
    major, minor = (int(number[0]) if number else None for number in numbers)
    return None if major is None or minor is None else (major, minor)
