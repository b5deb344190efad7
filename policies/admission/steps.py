"""The steps of the pipeline: what it needs next, and what its driver fills in."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.admission.entries import Entry
    from policies.decision import Decision, Template
    from policies.kubernetes.objects import Object
    from policies.quota.charges import ChargeRequest
    from policies.quota.charging.messages import Holder
    from policies.quota.charging.outcomes import ChargeOutcome
    from policies.request import Concern, Request
    from policies.view import Key

__all__ = ["Charge", "Ensure", "Failure", "Judge", "Part", "Read", "Step"]


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a concern that fails open, and is skipped."""

    identifier: str
    """The id in the log."""
    remark: str
    """The warning for the author."""


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a call that one concern has."""

    entry: Entry
    concern: Concern
    request: Request
    """With the object as the concerns before left it."""
    share: int | None
    """The number of concerns that share the time left, for a concern that fails open; None if it may use all of it."""


@dataclass(slots=True)
class _Step:
    """What the pipeline needs next. The driver sets the fields that have a default, and no others."""

    part: Part
    objects: Mapping[Key, Object | None]
    """Objects over those of the view: templates of this request, and objects that were read for it; None for one that does
    not exist."""
    failure: Failure | None = field(default=None, kw_only=True)
    """Set if the step failed, and the concern fails open."""


@dataclass(slots=True)
class Judge(_Step):
    """Run the rules of a concern. Pure: a driver may do it twice, and in a thread."""

    decision: Decision | None = None
    """What the rules say, with their own severities. None only after a failure."""


@dataclass(slots=True)
class Ensure(_Step):
    """Create the templates that a converted pod refers to, if they do not exist."""

    templates: tuple[Template, ...]
    foreign: Mapping[Key, Object] = field(default_factory=dict)
    """Those that exist with another content, as they are stored."""
    is_forged: bool = False
    """True if the namespace does not convert: the API server does not call the entry for it."""


@dataclass(slots=True)
class Read(_Step):
    """Read objects that decide a charge and that the view does not show."""

    charge: ChargeRequest
    keys: tuple[Key, ...]
    found: Mapping[Key, Object | None] = field(default_factory=dict)
    """Empty if nothing can be read, as offline."""
    outcome: ChargeOutcome | None = None
    """Set if the outcome is certain without them: the namespace has no quota, or they could not be read."""


@dataclass(slots=True)
class Charge(_Step):
    """Charge the object to the quota of its namespace."""

    charge: ChargeRequest
    outcome: ChargeOutcome | None = None
    """None only after a failure."""
    holders: tuple[Holder, ...] = ()
    """Pods and claims that hold some of a quota that is exceeded."""
    names_holders: bool = True
    """False if the refusal only says how many there are."""


Step = Judge | Ensure | Read | Charge
