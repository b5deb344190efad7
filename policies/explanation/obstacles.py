"""Obstacles: what stands in the way of a question before any node is looked at."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["Obstacle", "ObstacleKind"]


class ObstacleKind(StrEnum):
    """What kind of thing stands in the way."""

    MALFORMED = "malformed"
    """The document is not what its kind says."""
    REFUSED = "refused"
    """`review` refuses it; one obstacle for each finding that denies."""
    FACT_UNKNOWN = "fact unknown"
    """Something must be known first; the remedy says which file to bring."""
    MISSING = "missing"
    """A claim, template or DeviceClass that certainly does not exist."""
    CLAIM_FULL = "claim full"
    """A claim is reserved for as many pods as it can be."""
    CLAIM_DELETED = "claim deleted"
    """A claim is being deleted, so no pod gets it any more."""
    TOO_COSTLY = "too costly"
    """A selector that may cost more for one device than the API server accepts."""
    ALLOCATION_FAILS = "allocation fails"
    """Kubernetes' scheduler fails with an error, for every node: a selector that does not compile or that fails on a
    device, a kind of request that the cluster does not know."""


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing that stands in the way, whichever node would be taken."""

    kind: ObstacleKind
    sentence: str
    """What is there and why it matters, as one sentence without a full stop."""
    remedy: str = ""
    """What to do, an imperative without a full stop; empty where that is plain."""
    rule: str = ""
    """The rule that refuses, `GA301`; only with REFUSED."""
    cause: str = ""
    """The same in a few words, for a headline; empty where the kind says enough."""

    def as_json(self) -> dict[str, Any]:
        """As plain data: `kind`, `sentence`, `remedy`, `rule`; the last two may be empty."""
        return {"kind": str(self.kind), "sentence": self.sentence, "remedy": self.remedy, "rule": self.rule}
