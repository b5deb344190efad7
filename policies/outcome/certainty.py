"""Certainty: how sure an answer is, and what counts in place of unknown facts."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from policies.devices.feature_gates import offers
from policies.kubernetes.names import format_list, list_command
from policies.kubernetes.view import UNKNOWN

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policies.outcome.survey import Survey

__all__ = ["Assumption", "Certainty", "assumptions", "certainty_with"]


class Certainty(StrEnum):
    """What an answer rests on."""

    SEEN = "seen"
    """On what the cluster shows."""
    ASSUMED = "assumed"
    """Also on assumptions about facts that are unknown, which could turn it; the remarks name them."""
    PREDICTED = "predicted"
    """Also on resources, labels or devices that nodes do not show yet."""
    UNKNOWN = "unknown"
    """There is no answer; the sentence says why."""


_DEVICE_KINDS = (("DeviceClass", "DeviceClasses"), ("ResourceSlice", "ResourceSlices"))


class Assumption(NamedTuple):
    """A fact that is unknown, and what counts instead."""

    sentence: str
    """With the command that gets the fact; without a full stop."""
    is_optimistic: bool
    """True if fewer nodes may fit than it seems; False if more may."""


def certainty_with(assumed: Iterable[Assumption], *, fits: bool, fits_if_empty: bool) -> Certainty:
    """The certainty of a result that rests on assumptions.

    Optimistic ones cannot turn a result that is negative even so, nor pessimistic ones a positive one.
    """
    could_turn = {True} if fits else {True, False} if fits_if_empty else {False}
    is_in_doubt = any(each.is_optimistic in could_turn for each in assumed)
    return Certainty.ASSUMED if is_in_doubt else Certainty.SEEN


def assumptions(survey: Survey) -> Iterator[Assumption]:
    """The unknown facts of the cluster that the results of a survey depend on."""
    question, cluster, usage = survey.question, survey.cluster, survey.resource_usage
    if not cluster.nodes_known:
        sentence = "each node that a ResourceSlice names counts as one without labels, taints and limits"
        yield Assumption(f"no Nodes are known: {sentence} (add: {list_command('Node')})", is_optimistic=True)
    if (question.claims or survey.problem.by_resource) and not cluster.claims_known:
        sentence = "no ResourceClaims are known, so every device counts as free"
        yield Assumption(f"{sentence} (add: {list_command('ResourceClaim')})", is_optimistic=True)
    if question.requests_gpu_resources and offers(survey.view, "DRAExtendedResource") is not False:
        unknown = {kind: words for kind, words in _DEVICE_KINDS if survey.view.list(kind) is UNKNOWN}
        if unknown:
            sentence = f"no {format_list([*unknown.values()])} are known, so only GPUs of device plugins count"
            commands = "; ".join(map(list_command, unknown))
            yield Assumption(f"{sentence} (add: {commands})", is_optimistic=False)
    if question.pod is None or not cluster.nodes_known:
        return
    if not usage.pods_known:
        sentence = "no Pods are known, so nodes count as empty except for devices"
        yield Assumption(f"{sentence} (add: {list_command('Pod')})", is_optimistic=True)
    elif not usage.others_known:
        sentence = (
            "only pods that may get GPUs are known, so cpu and memory that other pods take of nodes count as free"
        )
        yield Assumption(sentence, is_optimistic=True)
