"""Groups: nodes that share their sentences, of which a few are told."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.dra.words import compressed
from policies.explanation.node_words import node_reason
from policies.explanation.report import NodeGroup, Reason, ReasonKind
from policies.explanation.solver import State
from policies.kubernetes.objects import name_of
from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from policies.explanation.question import Question
    from policies.explanation.survey import Like
    from policies.kubernetes.objects import Object

__all__ = ["device_names", "grouped"]

_MOST_GROUPS = 8
_MOST_NAMES = 8
_MOST_VALUES = 4
_GAVE_UP = "whether it fits is unknown: too many combinations of devices nearly satisfy the claims to try them all"


def grouped(
    likes: Iterable[Like], question: Question, nodes: Sequence[Object]
) -> tuple[tuple[NodeGroup, ...], int, int]:
    """The groups to tell; how many are left out, and how many nodes these hold.

    Those that fit come first, then those that would if nothing were in use, then those where devices decided.
    """
    merged: dict[Hashable, list[Like]] = {}
    for like in likes:
        merged.setdefault(_key(like), []).append(like)
    ranked = sorted((group for each in merged.values() for group in _apart(each)), key=_rank)
    told = tuple(_group(each, question, nodes) for each in ranked[:_MOST_GROUPS])
    left_out = ranked[_MOST_GROUPS:]
    return told, len(left_out), sum(_size(each) for each in left_out)


def device_names(allocations: Iterable[Object]) -> tuple[str, ...]:
    """The devices of allocations by request: `gpu: gpu-0..gpu-3`."""
    by_request: dict[str, list[str]] = {}
    for allocation in allocations:
        for result in lookup(allocation, ("devices", "results")) or []:
            by_request.setdefault(str(result.get("request")), []).append(str(result.get("device")))
    return tuple(f"{request}: {compressed(names)}" for request, names in by_request.items())


def _key(like: Like) -> Hashable:
    if like.fits:
        return "fits"
    if like.miss is not None:
        return like.miss.kind, like.miss.key, like.fits_if_empty
    if like.devices is None:
        return "gave up"
    return like.devices.reason.kind, like.devices.gist, like.fits_if_empty


def _apart(likes: list[Like]) -> list[list[Like]]:
    """Nodes whose devices have different things in place of what is asked, told apart where these are few."""
    by_values: dict[Hashable, list[Like]] = {}
    for like in likes:
        by_values.setdefault(like.devices.values if like.devices else (), []).append(like)
    return list(by_values.values()) if len(by_values) <= _MOST_VALUES else [likes]


def _rank(likes: Sequence[Like]) -> tuple[bool, bool, bool, int]:
    first = likes[0]
    return not first.fits, not first.fits_if_empty, first.miss is not None, -_size(likes)


def _size(likes: Iterable[Like]) -> int:
    return sum(len(like.positions) for like in likes)


def _group(likes: Sequence[Like], question: Question, nodes: Sequence[Object]) -> NodeGroup:
    first = min(likes, key=lambda like: like.positions[0])
    positions = sorted(position for like in likes for position in like.positions)
    outcome = first.outcome
    return NodeGroup(
        count=len(positions),
        nodes=tuple(name_of(nodes[position]) for position in positions[:_MOST_NAMES]),
        fits=first.fits,
        fits_if_empty=first.fits_if_empty,
        reason=None if first.fits else _reason(first, question, nodes),
        devices=device_names(outcome.allocations) if outcome is not None and outcome.state is State.FITS else (),
    )


def _reason(like: Like, question: Question, nodes: Sequence[Object]) -> Reason:
    if like.devices is not None:
        return like.devices.reason
    if like.miss is not None:
        return node_reason(like.misses, [nodes[position] for position in like.positions], question)
    return Reason(ReasonKind.GAVE_UP, _GAVE_UP)
