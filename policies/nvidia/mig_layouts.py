"""MIG layouts: how wanted profiles are distributed over GPUs so that each has a place on its GPU."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, NamedTuple

from policies.kubernetes.bounds import Work

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policies.nvidia.mig import Geometry, Match, MIGProfile


MOST_GPUS = 16
"""The GPUs of the largest nodes that are sold."""

DeviceCounts = dict["MIGProfile", int]
"""The number of devices of each profile on one GPU."""

_Counts = tuple[int, ...]
"""The number of instances of each profile of a geometry, the large ones first."""

_MOST_STEPS = 50_000
"""Distributions that a search tries; usual wishes take a few dozen."""
_WITH_ALL_ENGINES = "+me.all"
_WITHOUT_ENGINES = "-me"
_WITH_OPTICAL_FLOW = "+me"


class TooManyWaysError(Exception):
    """There are too many ways to distribute the devices to try them all."""


class Placement(NamedTuple):
    """Where a GPU instance lies: its first memory slice, and how many it takes."""

    profile: MIGProfile
    start: int
    size: int


def place(geometry: Geometry, counts: Mapping[MIGProfile, int]) -> tuple[Placement, ...] | None:
    """Where so many instances of each profile lie on one GPU; None if there is no room for all of them.

    An instance begins at a multiple of its memory slices, and its compute slices begin at the same number. So the last
    of the eight memory slices of an A100, which has seven compute slices, belongs only to instances that begin earlier.
    NVML places an instance at the last place that leaves room for the others, the large ones first.

    Args:
        geometry: The geometry of the GPU.
        counts: The numbers of instances, by the names that the geometry gives profiles.

    Source: `nvidia-smi mig -lgipp` of A30, A100, H100, H100 NVL and RTX PRO 6000, as their users publish it.
    """
    return _place(geometry, _vector(geometry, counts))


def possible_places(geometry: Geometry) -> tuple[Placement, ...]:
    """Every place at which an instance of each profile can lie on an empty GPU."""
    return tuple(
        Placement(match.profile, start, match.shape.memory_slices)
        for match in geometry.matches
        for start in _starts(geometry, match)
    )


def excess(geometry: Geometry, counts: Mapping[MIGProfile, int]) -> str | None:
    """The shortage of one GPU for so many devices: `9 of 8 memory slices`; None if they fit.

    A profile under the name of another driver counts as the one that it means. Profiles that the GPU does not have take
    nothing.
    """
    instances = gpu_instances(geometry, counts)
    return None if place(geometry, instances) is not None else shortage(geometry, instances, 1)


def gpu_instances(geometry: Geometry, counts: Mapping[MIGProfile, int]) -> DeviceCounts:
    """The fewest GPU instances that hold so many devices; compute instances of one profile share them.

    A GPU instance has 1, 2, 3, 4 or 7 compute slices, and a compute instance takes at most half of them, rounded up, or
    all. So placing the largest first wastes no slice.
    """
    rooms: dict[MIGProfile, list[int]] = {}
    beyond: DeviceCounts = {}
    for profile, count in sorted(counts.items(), key=lambda item: -(item[0].compute_slices or item[0].gpu_slices)):
        match = geometry.match(profile)
        if match is None:
            continue
        size, whole = profile.compute_slices or profile.gpu_slices, match.shape.compute_slices
        left = rooms.setdefault(match.profile, [])
        placed = min(count, match.most * whole + 1)
        for _ in range(placed):
            index = next((index for index, room in enumerate(left) if room >= size), None)
            if index is None:
                left.append(whole - size)
            else:
                left[index] -= size
        # The rest has no room on the GPU anyway, so that huge numbers cost no work.
        rest = max(0, count - placed - sum(room // size for room in left))
        beyond[match.profile] = beyond.get(match.profile, 0) + -(-rest // (whole // size))
    return {profile: len(left) + beyond[profile] for profile, left in rooms.items() if left}


def find_layouts(geometry: Geometry, counts: Mapping[MIGProfile, int], gpus: int) -> tuple[DeviceCounts, ...] | None:
    """The layouts of the fewest GPUs that together have exactly these devices; None without room.

    Args:
        geometry: The geometry of each GPU.
        counts: The numbers of devices, each above 0, by the names that the geometry gives profiles.
        gpus: The most GPUs to divide, up to `MOST_GPUS`.

    Raises:
        TooManyWaysError: None was found, and not all ways were tried.
    """
    search = _Search(geometry, Work(_MOST_STEPS))
    wanted = _vector(geometry, counts)
    for number in range(search.fewest(wanted), min(gpus, MOST_GPUS) + 1):
        if found := search.distribute(wanted, number, set()):
            return tuple(
                {match.profile: count for match, count in zip(_large_first(geometry), vector, strict=True) if count}
                for vector in sorted(found, reverse=True)
            )
        if search.work.left <= 0:
            raise TooManyWaysError
    return None


def fewest_gpus(geometry: Geometry, counts: Mapping[MIGProfile, int]) -> int | None:
    """The number of GPUs with room for so many devices; None if above `MOST_GPUS` or not found."""
    try:
        found = find_layouts(geometry, counts, MOST_GPUS)
    except TooManyWaysError:
        return None
    return len(found) if found else None


def fitting_part(geometry: Geometry, counts: Mapping[MIGProfile, int], gpus: int) -> DeviceCounts:
    """The wanted devices that fit on so many GPUs, if not all do: small profiles are given up first."""
    order = [match.profile for match in _large_first(geometry) if match.profile in counts]
    kept = dict(counts)
    for profile in reversed(order):
        kept[profile] = _most_that_fit(geometry, kept, profile, counts[profile], gpus)
        if kept[profile]:
            break
    for profile in order:
        kept[profile] = _most_that_fit(geometry, kept, profile, counts[profile], gpus)
    return {profile: count for profile, count in kept.items() if count}


def shortage(geometry: Geometry, counts: Mapping[MIGProfile, int], gpus: int) -> str:
    """The shortage of devices that do not fit: `9 of 8 memory slices`."""
    vector = _vector(geometry, counts)
    for match, count in zip(_large_first(geometry), vector, strict=True):
        if count > match.most * gpus:
            return f"{count} of {match.most * gpus} possible {match.profile}"
    memory, compute = _slices(geometry, vector)
    if memory > geometry.layout.memory_slices * gpus:
        return f"{memory} of {geometry.layout.memory_slices * gpus} memory slices"
    if compute > geometry.layout.compute_slices * gpus:
        return f"{compute} of {geometry.layout.compute_slices * gpus} compute slices"
    if _fewest_by_engines(geometry, vector) > gpus:
        return "more media engines than there are"
    return "slices in one piece that would be left on different GPUs"


def _most_that_fit(geometry: Geometry, counts: DeviceCounts, profile: MIGProfile, most: int, gpus: int) -> int:
    """The devices of a profile that fit beside the others, at most `most`; 0 if those do not fit."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        tried = {each: count for each, count in {**counts, profile: middle}.items() if count}
        low, high = (middle, high) if _are_found(geometry, tried, gpus) else (low, middle - 1)
    return low


def _are_found(geometry: Geometry, counts: DeviceCounts, gpus: int) -> bool:
    try:
        return find_layouts(geometry, counts, gpus) is not None
    except TooManyWaysError:
        return False


@dataclass(slots=True)
class _Search:
    """A search for a distribution, whose steps are bounded."""

    geometry: Geometry
    work: Work
    """In distributions."""

    def fewest(self, wanted: _Counts) -> int:
        """The least number of GPUs that the devices need, by their slices and numbers."""
        layout, matches = self.geometry.layout, _large_first(self.geometry)
        memory, compute = _slices(self.geometry, wanted)
        each = [-(-count // match.most) for count, match in zip(wanted, matches, strict=True)]
        slices = max(1, -(-memory // layout.memory_slices), -(-compute // layout.compute_slices), *each)
        return max(slices, _fewest_by_engines(self.geometry, wanted))

    def distribute(self, wanted: _Counts, gpus: int, failed: set[_Counts]) -> list[_Counts] | None:
        """The devices of each GPU; None if they do not fit, or the steps are used up.

        The next GPU takes as much as it can, and one of the largest devices: some GPU has to take that one. What fits on a GPU still fits if a device is removed, so nothing is gained by leaving room on this one.
        """
        if not any(wanted):
            return []
        if self.fewest(wanted) > gpus or wanted in failed or self.work.left <= 0:
            return None
        matches = _large_first(self.geometry)
        capped = tuple(min(count, match.most) for count, match in zip(wanted, matches, strict=True))
        for taken in _full_gpus(self.geometry, capped):
            self.work.spend(1)
            rest = tuple(count - part for count, part in zip(wanted, taken, strict=True))
            if (found := self.distribute(rest, gpus - 1, failed)) is not None:
                return [taken, *found]
        failed.add(wanted)
        return None


@lru_cache(maxsize=4096)
def _full_gpus(geometry: Geometry, available: _Counts) -> tuple[_Counts, ...]:
    """The combinations that fill one GPU, so that no other device fits, with one of the largest devices."""
    first = next(index for index, count in enumerate(available) if count)
    fitting = {vector for vector in _part_vectors(geometry, available) if vector[first]}
    return tuple(
        vector
        for vector in sorted(fitting, reverse=True)
        if not any(
            _with_one_more(vector, index) in fitting for index in range(len(vector)) if vector[index] < available[index]
        )
    )


def _part_vectors(geometry: Geometry, available: _Counts) -> Iterator[_Counts]:
    """All combinations of the available devices that fit on one GPU."""

    def choose(vector: _Counts, index: int) -> Iterator[_Counts]:
        yield vector
        for other in range(index, len(vector)):
            more = _with_one_more(vector, other)
            if more[other] <= available[other] and _place(geometry, more) is not None:
                yield from choose(more, other)

    return choose((0,) * len(available), 0)


def _with_one_more(vector: _Counts, index: int) -> _Counts:
    return (*vector[:index], vector[index] + 1, *vector[index + 1 :])


@lru_cache(maxsize=16384)
def _place(geometry: Geometry, vector: _Counts) -> tuple[Placement, ...] | None:
    matches = _large_first(geometry)
    memory, _ = _slices(geometry, vector)
    too_many = any(count > match.most for count, match in zip(vector, matches, strict=True))
    if too_many or memory > geometry.layout.memory_slices or _fewest_by_engines(geometry, vector) > 1:
        return None
    return _place_rest(
        geometry, tuple(match for match, count in zip(matches, vector, strict=True) for _ in range(count)), 0
    )


def _place_rest(geometry: Geometry, matches: tuple[Match, ...], taken: int) -> tuple[Placement, ...] | None:
    """The places of instances beside slices that are taken, which are bits."""
    if not matches:
        return ()
    match, *rest = matches
    size = match.shape.memory_slices
    for start in reversed(_starts(geometry, match)):
        slices = ((1 << size) - 1) << start
        if not taken & slices and (found := _place_rest(geometry, tuple(rest), taken | slices)) is not None:
            return (Placement(match.profile, start, size), *found)
    return None


def _starts(geometry: Geometry, match: Match) -> range:
    """The memory slices at which a GPU instance can begin."""
    last = geometry.layout.compute_slices - match.shape.compute_slices
    size = match.shape.memory_slices
    return range(0, min(last, geometry.layout.memory_slices - size) + 1, size)


def _fewest_by_engines(geometry: Geometry, vector: _Counts) -> int:
    """The least number of GPUs that the devices need, by their media engines.

    A GPU has one engine for optical flow, which comes with `+me`. `+me.all` takes all other engines too, so the rest of
    the GPU must do without any (`-me`).

    Source: NVIDIA MIG user guide, hardware units of the supported profiles.
    """
    with_all = with_flow = memory = 0
    for match, count in zip(_large_first(geometry), vector, strict=True):
        if match.profile.attributes == _WITH_ALL_ENGINES:
            with_all += count
        elif match.profile.attributes != _WITHOUT_ENGINES:
            with_flow += count if match.profile.attributes == _WITH_OPTICAL_FLOW else 0
            memory += count * match.shape.memory_slices
    return with_all + max(with_flow, -(-memory // geometry.layout.memory_slices))


@cache
def _large_first(geometry: Geometry) -> tuple[Match, ...]:
    """The profiles of a geometry, those with most slices first; the order of all vectors of counts."""
    return tuple(
        sorted(
            geometry.matches, key=lambda match: (-match.shape.memory_slices, -match.shape.compute_slices, match.most)
        )
    )


def _slices(geometry: Geometry, vector: _Counts) -> tuple[int, int]:
    """The memory slices and compute slices of so many instances."""
    shapes = [match.shape for match in _large_first(geometry)]
    return (
        sum(count * shape.memory_slices for count, shape in zip(vector, shapes, strict=True)),
        sum(count * shape.compute_slices for count, shape in zip(vector, shapes, strict=True)),
    )


def _vector(geometry: Geometry, counts: Mapping[MIGProfile, int]) -> _Counts:
    return tuple(counts.get(match.profile, 0) for match in _large_first(geometry))
