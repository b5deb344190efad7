"""What is kept in mind of quotas from one round of counting to the next."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from policies.quota.counting.counter import Counter
from policies.quota.ledger.ledger import Ledger
from policies.quota.limits.quota import parse_quota

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policies.kubernetes.objects import Object
    from policies.quota.limits.quota import Quota
    from webhook.controllers.quota_lists import Both

__all__ = ["Basis", "Kept"]


@dataclass(frozen=True)
class Basis:
    """What a count rests on; as long as it is the same, nothing is left to do."""

    document: Object
    both: Both
    gone: frozenset[str]
    """The uids of charges whose objects came and went."""
    groups: Sequence[Object]
    """The PodGroups of the namespace."""
    facts: tuple[Any, ...]
    conditions: Sequence[Object]

    def is_like(self, other: Basis | None) -> bool:
        """Whether a count that rests on this finds what one found that rests on the other."""
        return (
            other is not None
            and self.document is other.document
            and self.both.shows_the_same(other.both)
            and self.gone == other.gone
            and self.groups == other.groups
            and self.conditions == other.conditions
            and self.facts == other.facts
        )


@dataclass
class Kept:
    """What is kept in mind of a GPUQuota from one round to the next."""

    uid: str
    spec: tuple[Object, Quota] | None = None
    """The object that was read last, and what it says."""
    counter: Counter = field(default_factory=Counter)
    known: frozenset[str] | None = None
    """The uids that were counted last; None before the first count of this leader."""
    began_anew: bool = False
    settled: Basis | None = None
    """On what the last count rests that found nothing to write."""
    ledger: Ledger = field(default_factory=Ledger)
    """As counted last."""

    def read(self, document: Object) -> Quota:
        """What the spec of the object says, read once.

        Raises:
            QuotaError: it cannot be read.
        """
        if self.spec is None or self.spec[0] is not document:
            self.spec = document, parse_quota(document)
        return self.spec[1]
