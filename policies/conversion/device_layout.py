"""The layout of devices: which request of the claim stands for which GPUs of which container.

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

__all__ = ["ContainerRequest", "Piece", "TooManyDevicesError", "device_layout", "most_at_once", "requests_by_container"]


class TooManyDevicesError(ValueError):
    """The pod requests more devices than a claim can hold; the text says how many."""


@dataclass(frozen=True, slots=True)
class ContainerRequest:
    """The GPU resources that one container requests."""

    name: str
    kind: Literal["container", "init", "sidecar"]
    resources: Mapping[str, int]
    """Devices by resource name; may be 0."""


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
    """Devices that one container owns; no other container holds them longer."""

    owner: str
    start: int
    end: int
    users: list[tuple[str, int, int]]


def device_layout(containers: Sequence[ContainerRequest]) -> tuple[Piece, ...]:
    """Divide the devices of a pod into requests of a claim.

    `containers` are in the order in which they start.

    Raises:
        TooManyDevicesError: more than a claim can hold.
    """
    by_resource: dict[str, list[ContainerRequest]] = {}
    for container in containers:
        for resource, count in container.resources.items():
            if count:
                by_resource.setdefault(resource, []).append(container)
    total = sum(most_at_once(those, resource) for resource, those in by_resource.items())
    if total > MOST_DEVICES:
        raise TooManyDevicesError(f"the pod needs {total} devices at once, and a claim can hold {MOST_DEVICES}")
    pieces = [
        (resource, piece) for resource, those in sorted(by_resource.items()) for piece in _pieces(those, resource)
    ]
    names = _request_names({each.name for each in containers}, [owner for _, (owner, _, _) in pieces])
    return tuple(
        Piece(name, resource, count, users) for name, (resource, (_, count, users)) in zip(names, pieces, strict=True)
    )


def requests_by_container(pieces: Iterable[Piece]) -> dict[str, list[str]]:
    """The requests that each container uses, in the order of the line."""
    requests: dict[str, list[str]] = {}
    for piece in pieces:
        for container in piece.containers:
            requests.setdefault(container, []).append(piece.request)
    return requests


def most_at_once(containers: Sequence[ContainerRequest], resource: str) -> int:
    """The most devices of a resource that the pod ever holds at once.

    `containers` are in the order in which they start.
    """
    most = running = 0
    for container in containers:
        count = container.resources.get(resource, 0)
        if container.kind == "init":
            most = max(most, running + count)
        else:
            running += count
    return max(most, running)


def _pieces(containers: Sequence[ContainerRequest], resource: str) -> Iterator[tuple[str, int, tuple[str, ...]]]:
    """Owner, length and users of each piece of one resource's line, from the front."""
    for owned in _ranges(containers, resource):
        cuts = sorted({owned.start, owned.end, *(end for _, _, end in owned.users if end < owned.end)})
        for start, end in pairwise(cuts):
            users = [name for name, first, last in owned.users if first <= start and end <= last]
            yield owned.owner, end - start, tuple(users)


def _ranges(containers: Sequence[ContainerRequest], resource: str) -> list[_Range]:
    """The line of one resource, from the front, with the containers that use each part."""
    owners = [each for each in containers if each.kind == "container"]
    owners += [each for each in reversed(containers) if each.kind == "sidecar"]
    line: list[_Range] = []
    position = 0
    for owner in owners:
        count = owner.resources[resource]
        line.append(_Range(owner.name, position, position + count, [(owner.name, position, position + count)]))
        position += count
    started: set[str] = set()
    for container in containers:
        if container.kind == "sidecar":
            started.add(container.name)
        elif container.kind == "init":
            _take(line, container.name, container.resources[resource], started)
    return line


def _take(line: list[_Range], name: str, count: int, held: set[str]) -> None:
    """Give an init container the first devices that no running sidecar holds; extend the line if needed."""
    for owned in line:
        if owned.owner in held or not count:
            continue
        taken = min(count, owned.end - owned.start)
        owned.users.append((name, owned.start, owned.start + taken))
        count -= taken
    if count:
        end = line[-1].end if line else 0
        line.append(_Range(name, end, end + count, [(name, end, end + count)]))


def _request_names(containers: set[str], owners: Sequence[str]) -> list[str]:
    """A name for each piece: its owner's, numbered if an owner has several. All are unique DNS labels.

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
