"""The line of devices: which request of the claim stands for which part of which container's GPUs.

Under the device plugin init containers hand their devices on: a pod never holds more than its effective request. A
claim holds all its devices from start to end, so containers must refer to the same ones. The devices of one resource
lie on a line: app containers first, then sidecars from the last started to the first, then what only init containers
need. The devices that are free when an init container starts are then the line without the sidecars started before it,
and the init container takes them from the front. The line is cut where such an amount ends; each piece is one request.

Source of the effective request: k8s.io/component-helpers/resource PodRequests.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from policies.dra.resource_claims import MOST_DEVICES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["ContainerRequest", "Piece", "TooManyDevicesError", "device_layout", "requests_by_container"]


class TooManyDevicesError(ValueError):
    """The pod asks for more devices than a claim can hold; the text says how many."""


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """What one container asks for."""

    name: str
    kind: Literal["container", "init", "sidecar"]
    resources: Mapping[str, int]
    """Devices by resource name; 0 asks for nothing."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A run of devices on the line of one resource: one request of the claim."""

    request: str
    resource: str
    count: int
    containers: tuple[str, ...]
    """The containers that use it."""


@dataclass(slots=True)
class _Range:
    """Devices that one container owns; nobody holds them longer."""

    owner: str
    start: int
    end: int
    users: list[tuple[str, int, int]]


def device_layout(asks: Sequence[ContainerRequest]) -> tuple[Piece, ...]:
    """Cut the devices of a pod into requests. `asks` are in the order in which containers start.

    Raises:
        TooManyDevicesError: more than a claim can hold.
    """
    asking: dict[str, list[ContainerRequest]] = {}
    for ask in asks:
        for resource, count in ask.resources.items():
            if count:
                asking.setdefault(resource, []).append(ask)
    total = sum(_effective(those, resource) for resource, those in asking.items())
    if total > MOST_DEVICES:
        raise TooManyDevicesError(f"the pod needs {total} devices at once, and a claim can hold {MOST_DEVICES}")
    cut = [(resource, piece) for resource, those in sorted(asking.items()) for piece in _pieces(those, resource)]
    names = _request_names({ask.name for ask in asks}, [owner for _, (owner, _, _) in cut])
    return tuple(
        Piece(name, resource, count, containers)
        for name, (resource, (_, count, containers)) in zip(names, cut, strict=True)
    )


def requests_by_container(pieces: Iterable[Piece]) -> dict[str, list[str]]:
    """The requests that each container uses, in the order of the line."""
    requests: dict[str, list[str]] = {}
    for piece in pieces:
        for container in piece.containers:
            requests.setdefault(container, []).append(piece.request)
    return requests


def _effective(asks: Sequence[ContainerRequest], resource: str) -> int:
    """The most devices of a resource that the pod ever holds at once; `asks` are those that ask for it."""
    most = running = 0
    for ask in asks:
        count = ask.resources[resource]
        if ask.kind == "init":
            most = max(most, running + count)
        else:
            running += count
    return max(most, running)


def _pieces(asks: Sequence[ContainerRequest], resource: str) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Owner, length and users of each piece of one resource's line, from the front."""
    for owned in _ranges(asks, resource):
        cuts = sorted({owned.start, owned.end, *(end for _, _, end in owned.users if end < owned.end)})
        for start, end in pairwise(cuts):
            users = [name for name, first, last in owned.users if first <= start and end <= last]
            yield owned.owner, end - start, tuple(users)


def _ranges(asks: Sequence[ContainerRequest], resource: str) -> list[_Range]:
    """The line of one resource with who uses which part, from the front."""
    owners = [ask for ask in asks if ask.kind == "container"]
    owners += [ask for ask in reversed(asks) if ask.kind == "sidecar"]
    line: list[_Range] = []
    position = 0
    for ask in owners:
        count = ask.resources[resource]
        line.append(_Range(ask.name, position, position + count, [(ask.name, position, position + count)]))
        position += count
    started: set[str] = set()
    for ask in asks:
        if ask.kind == "sidecar":
            started.add(ask.name)
        elif ask.kind == "init":
            _take(line, ask, ask.resources[resource], started)
    return line


def _take(line: list[_Range], ask: ContainerRequest, count: int, held: set[str]) -> None:
    """Give an init container the first devices that no running sidecar holds; grow the line where it needs more."""
    for owned in line:
        if owned.owner in held or not count:
            continue
        taken = min(count, owned.end - owned.start)
        owned.users.append((ask.name, owned.start, owned.start + taken))
        count -= taken
    if count:
        end = line[-1].end if line else 0
        line.append(_Range(ask.name, end, end + count, [(ask.name, end, end + count)]))


def _request_names(containers: set[str], owners: Sequence[str]) -> list[str]:
    """A name for each piece: its owner's, numbered where an owner has several; DNS labels, all different.

    A name that is too long, or that another container or piece could have, is shortened and made unique by a hash.
    """
    numbers: dict[str, int] = {}
    names: list[str] = []
    for owner in owners:
        number = numbers.get(owner, 0)
        numbers[owner] = number + 1
        suffix = f"-{number}" if owners.count(owner) > 1 else ""
        name = plain = owner + suffix
        while len(name) > 63 or (suffix and (name in containers or name in names)):
            plain = hashlib.sha256(plain.encode()).hexdigest()
            name = f"{owner[: 63 - len(suffix) - 9].rstrip('-')}-{plain[:8]}{suffix}"
        names.append(name)
    return names
