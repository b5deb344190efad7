"""Device layout: the requests of a claim that stand for the GPUs of a pod's containers.

Under the device plugin init containers hand their devices on: a pod never holds more than its effective request. A claim
holds all its devices from start to end, so containers must refer to the same ones. The devices of one resource lie on a
line: app containers first, then sidecars from the last started to the first, then what only init containers need. The
devices that are free when an init container starts are then the line without the sidecars started before it, and the init
container takes them from the front. The line is cut where such an amount ends; each piece is one request. With a network
device beside each GPU, the line is cut between all devices, and each piece has a second request, for the network device.

Source of the effective request: k8s.io/component-helpers/resource PodRequests.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from policies.devices.resource_claims import MOST_DEVICES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence


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
    nic: str = ""
    """The request of the network device beside the GPU; empty without one. `count` is 1 then."""

    @property
    def requests(self) -> tuple[str, ...]:
        """The requests that the containers use."""
        return (self.request, self.nic) if self.nic else (self.request,)


@dataclass(slots=True)
class _Range:
    """Devices that one container owns; no other container holds them longer."""

    owner: str
    start: int
    end: int
    users: list[tuple[str, int, int]]


def device_layout(containers: Sequence[ContainerRequest], *, with_nics: bool = False) -> tuple[Piece, ...]:
    """Divide the devices of a pod into requests of a claim.

    Args:
        containers: In the order in which they start.
        with_nics: True for a network device beside each device.

    Raises:
        TooManyDevicesError: more than a claim can hold.
    """
    by_resource: dict[str, list[ContainerRequest]] = {}
    for container in containers:
        for resource, count in container.resources.items():
            if count:
                by_resource.setdefault(resource, []).append(container)
    total = sum(most_at_once(those, resource) for resource, those in by_resource.items())
    if total * (1 + with_nics) > MOST_DEVICES:
        needed = f"{total} devices at once" + (" and a network device for each" if with_nics else "")
        raise TooManyDevicesError(f"the pod needs {needed}, and a claim can hold {MOST_DEVICES}")
    pieces = [
        (resource, owner, 1 if with_nics else count, users)
        for resource, those in sorted(by_resource.items())
        for owner, count, users in _pieces(those, resource)
        for _ in range(count if with_nics else 1)
    ]
    taken, owners = {each.name for each in containers}, [owner for _, owner, _, _ in pieces]
    names = _request_names(taken, owners)
    nics = _request_names(taken.union(names), owners, "-nic") if with_nics else [""] * len(pieces)
    return tuple(
        Piece(name, resource, count, users, nic)
        for name, nic, (resource, _, count, users) in zip(names, nics, pieces, strict=True)
    )


def requests_by_container(pieces: Iterable[Piece]) -> dict[str, list[str]]:
    """The requests that each container uses, in the order of the line."""
    requests: dict[str, list[str]] = {}
    for piece in pieces:
        for container in piece.containers:
            requests.setdefault(container, []).extend(piece.requests)
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


def _request_names(taken: set[str], owners: Sequence[str], kind: str = "") -> list[str]:
    """A unique DNS label for each piece: its owner's name and the kind, numbered if there are several.

    A name that is too long, or that is taken by a container or another piece, is shortened and made unique by a hash.
    """
    numbers: dict[str, int] = {}
    names: list[str] = []
    for owner in owners:
        number = numbers.get(owner, 0)
        numbers[owner] = number + 1
        suffix = kind + (f"-{number}" if owners.count(owner) > 1 else "")
        name = plain = owner + suffix
        while len(name) > 63 or (suffix and (name in taken or name in names)):
            plain = hashlib.sha256(plain.encode()).hexdigest()
            name = f"{owner[: 63 - len(suffix) - 9].rstrip('-')}-{plain[:8]}{suffix}"
        names.append(name)
    return names
