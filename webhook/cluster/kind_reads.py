"""The version of the API server, read again every five minutes, because clusters are upgraded."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from dataclasses import dataclass, field
from enum import StrEnum
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from policies.kubernetes.objects import lookup
from policies.kubernetes.versions import GATE_LINES, Feature, gate_in
from policies.kubernetes.view import UNKNOWN, Unknown
from webhook.cluster.answers import APIError, ClusterError
from webhook.cluster.lists import PAGE, get_object, pages
from webhook.cluster.watched_kinds import DRA, Watched

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Container, Mapping
    from typing import NoReturn

    from policies.kubernetes.objects import Object
    from webhook.cluster.client import APIClient
    from webhook.cluster.live import LiveView
    from webhook.cluster.resources import Resource


_EVERY_SECONDS = 300.0
_RETRY_SECONDS = 10.0
_NUMBER = re.compile(r"\d+")

_logger = logging.getLogger("gpu_admission.cluster")


@dataclass(eq=False)
class ServerVersion:
    """Reads `/version`, and the feature gates in `/metrics`.

    Every authenticated client may read the version, and few the metrics; without that right no gate is known. The metrics of
    a large cluster are long, so they are read at the start, and again if the version has changed.
    """

    client: APIClient
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _logged: str = field(default="", init=False)
    _gates_of: tuple[int, int] | Unknown | None = field(default=None, init=False)
    """The version whose gates were read; None before any were."""

    async def run(self, view: LiveView) -> NoReturn:
        """Set version and gates of a view every 5 minutes; without an answer, the last version stays."""
        while True:
            await self.sleep(await self.read(view))

    async def read(self, view: LiveView) -> float:
        """Read once, and set what a view shows; returns the seconds until the next read."""
        try:
            version = parse_version(await self.client.get("/version"))
            if self._gates_of is None:
                view.set_server_version(version)
            if version != self._gates_of:
                await self._read_gates(view, version)
            view.set_server_version(version)
        except ClusterError as error:
            # A repeated error is logged once.
            level = logging.DEBUG if str(error) == self._logged else logging.WARNING
            self._logged = str(error)
            _logger.log(level, "cannot read the version or the feature gates of the API server: %s", error)
            return _RETRY_SECONDS
        self._logged = ""
        return _EVERY_SECONDS

    async def _read_gates(self, view: LiveView, version: tuple[int, int] | Unknown) -> None:
        """Set the gates, and none if they cannot be read: those of another version say nothing."""
        try:
            gates = await read_gates(self.client)
        except ClusterError:
            view.set_feature_gates({})
            view.set_server_version(version)
            raise
        known = {} if isinstance(gates, Unknown) else gates
        view.set_feature_gates(known)
        self._gates_of = version
        if known:
            _logger.info("read %d feature gates from the metrics of the API server", len(known))
        else:
            _logger.info(
                "the API server shows no feature gates (get /metrics); they are as its version has them by default"
            )


async def read_gates(client: APIClient) -> Mapping[str, bool] | Unknown:
    """The gates of the table of versions that the API server lists in `/metrics`.

    Unknown if it hides its metrics. Other lines are dropped as they arrive.

    Raises:
        ClusterError: The metrics cannot be read for another reason.
    """
    try:
        async with contextlib.aclosing(client.text_lines("/metrics")) as lines:
            found = [gate_in(line) async for line in lines if line.startswith(GATE_LINES)]
    except APIError as error:
        if error.is_forbidden or error.is_not_found:
            return UNKNOWN
        raise
    return {gate[0]: gate[1] for gate in found if gate and gate[0] in Feature.__members__}


async def read_version(client: APIClient) -> Any:
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


class Why(StrEnum):
    """The reason why objects are unknown."""

    FORBIDDEN = "forbidden"
    """RBAC does not allow the read."""
    NOT_SERVED = "not served"
    """The API server does not serve the version that is read, but may serve another one."""
    FAILED = "failed"
    """The API server fails to read this kind, for example because a conversion webhook does not answer."""
    UNAVAILABLE = "unavailable"
    """The API server is not reachable, does not accept the credentials, or is too busy."""


LASTING = frozenset({Why.FORBIDDEN, Why.NOT_SERVED})
"""The reasons that a second attempt does not change."""
ABOUT_THE_KIND = LASTING | {Why.FAILED}
"""The reasons that say nothing about other kinds."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Objects that are unknown, and why."""

    why: Why
    verb: str
    """`list` or `get`."""
    wanted: Watched
    """The objects."""
    error: ClusterError

    def __str__(self) -> str:
        """The reason why the objects are unknown, without a full stop."""
        text = f"{self._reason(self.wanted.resource)} {self.wanted.words}"
        return text if self.why in LASTING else f"{text}: {self.error}"

    def redacted_text(self, shown: Resource) -> str:
        """The text without names that users choose, and without the answer of the API server.

        Args:
            shown: The resource, with the names to show.
        """
        return f"{self._reason(shown)} {shown.name}"

    @property
    def clause(self) -> str:
        """The reason as a clause for the user who runs a command: `you may not list Pods`."""
        match self.why:
            case Why.FORBIDDEN:
                return f"you may not {self.verb} {self.wanted.kind}s"
            case Why.NOT_SERVED:
                return f"the API server does not serve {self.wanted.kind}s of {self.wanted.resource.api_version}"
        return str(self)

    def _reason(self, shown: Resource) -> str:
        match self.why:
            case Why.FORBIDDEN:
                return f"forbidden: {self.verb}"
            case Why.NOT_SERVED:
                return f"the API server does not serve {shown.api_version}:"
            case Why.FAILED:
                return f"the API server fails to {self.verb}"
            case Why.UNAVAILABLE:
                return f"the API server does not answer: {self.verb}"


async def read_pages(
    client: APIClient,
    wanted: Watched,
    take: Callable[[list[Object]], Awaitable[None]],
    *,
    limit: int = PAGE,
    expected: Container[Why] = LASTING,
) -> Unreadable | None:
    """Pass the pages of a list to `take`; returns why its objects are unknown, None if all are known.

    Args:
        client: Reads from the API server.
        wanted: The objects to list.
        take: Is called with each page; must not send requests.
        limit: Objects in a page.
        expected: The reasons that are returned.

    Raises:
        ClusterError: The objects are unknown for another reason.
    """
    found = pages(client, wanted.resource, wanted.namespace, wanted.query, limit=limit)
    try:
        async with contextlib.aclosing(found):
            async for page in found:
                await take(page)
    except ClusterError as error:
        return await _reason(client, Unreadable(_why(error), "list", wanted, error), expected)
    return None


async def read_list(
    client: APIClient,
    wanted: Watched,
    keep: Callable[[Object], Object | None] = lambda item: item,
    *,
    show: Callable[[int], None] | None = None,
    limit: int = PAGE,
    expected: Container[Why] = LASTING,
) -> list[Object] | Unreadable:
    """The results of `keep` for the objects of a list, without None; or why they are unknown.

    Args:
        client: Reads from the API server.
        wanted: The objects to list.
        keep: Returns what is kept of an object, or None to drop it.
        show: Is called after each page with the number of objects that were read.
        limit: Objects in a page.
        expected: The reasons that are returned.

    Raises:
        ClusterError: The objects are unknown for another reason.
    """
    kept: list[Object] = []
    count = 0

    async def take(page: list[Object]) -> None:
        nonlocal count
        kept.extend(found for item in page if (found := keep(item)) is not None)
        count += len(page)
        if show is not None:
            show(count)

    unreadable = await read_pages(client, wanted, take, limit=limit, expected=expected)
    return kept if unreadable is None else unreadable


async def read_object(
    client: APIClient, resource: Resource, name: str, namespace: str = "", *, expected: Container[Why] = LASTING
) -> Object | Unreadable | None:
    """One object, None if it does not exist, or why it is unknown.

    Args:
        client: Reads from the API server.
        resource: The resource.
        name: The name of the object.
        namespace: The namespace of the object; empty if the resource has none.
        expected: The reasons that are returned.

    Raises:
        ClusterError: The object is unknown for another reason.
    """
    try:
        found: Object = await get_object(client, resource, name, namespace)
    except ClusterError as error:
        wanted = Watched(resource, namespace, name)
        return await _reason(client, Unreadable(_why(error), "get", wanted, error), expected)
    return found


def _why(error: ClusterError) -> Why:
    if isinstance(error, APIError):
        if error.is_not_found:
            return Why.NOT_SERVED
        if error.is_forbidden:
            return Why.FORBIDDEN
        if error.code >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return Why.FAILED
    return Why.UNAVAILABLE


async def _reason(client: APIClient, unreadable: Unreadable, expected: Container[Why]) -> Unreadable | None:
    """The reason why objects are unknown; None if they certainly do not exist.

    Raises:
        ClusterError: The reason is not expected.
    """
    if unreadable.why is Why.NOT_SERVED:
        resource = unreadable.wanted.resource
        if resource.group != DRA or Feature.ResourceV1.default_in(parse_version(await read_version(client))) is True:
            return None
    if unreadable.why not in expected:
        raise unreadable.error
    return unreadable
