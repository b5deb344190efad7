"""The steps of the pipeline: requests to its driver, with fields for the results."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.admission.webhooks import Entry
    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import Key
    from policies.quota.charging.messages import Holder
    from policies.quota.charging.outcomes import ChargeOutcome
    from policies.rules.charges import ChargeRequest
    from policies.rules.decision import Decision, Template
    from policies.rules.request import Concern, Request

__all__ = ["Charge", "Ensure", "Failure", "Finish", "Judge", "Part", "Read", "Step"]


@dataclass(frozen=True, slots=True)
class Failure:
    """The failure of a concern that fails open, and is skipped."""

    identifier: str
    """The id in the log."""
    remark: str
    """The warning for the author."""


@dataclass(frozen=True, slots=True)
class Part:
    """One concern of a call, and the request that it reviews."""

    entry: Entry
    concern: Concern
    request: Request
    """Its object has the changes of the concerns before."""
    share: int | None
    """The number of concerns that share the time left, for a concern that fails open; None if it may use all of it."""


@dataclass(slots=True)
class _Step:
    """A step; the driver sets fields that have a default, and no others."""

    part: Part
    objects: Mapping[Key, Object | None]
    """Objects to see instead of those of the view: templates of this request, and objects that were read for it. None for
    one that does not exist."""
    failure: Failure | None = field(default=None, kw_only=True)
    """Set if the step failed, and the concern fails open."""


@dataclass(slots=True)
class Judge(_Step):
    """Run the rules of a concern. Pure: a driver may do it twice, and in a thread."""

    decision: Decision | None = None
    """The decision of the rules, with their own severities. None only after a failure."""


@dataclass(slots=True)
class Finish(_Step):
    """Apply the severities of the settings and the waivers of the object. Pure, as `Judge`."""

    decision: Decision
    """The decision of the rules, after the charge."""
    answer: Decision | None = None
    """The answer of the concern. None only after a failure."""


@dataclass(slots=True)
class Ensure(_Step):
    """Create the templates that a converted pod refers to, if they do not exist."""

    templates: tuple[Template, ...]
    foreign: Mapping[Key, Object] = field(default_factory=dict)
    """Stored templates of the same names with other content."""
    is_forged: bool = False
    """True if the namespace does not convert, so the call cannot come from the API server."""


@dataclass(slots=True)
class Read(_Step):
    """Read the objects that a charge depends on and the view does not show."""

    charge: ChargeRequest
    keys: tuple[Key, ...]
    found: Mapping[Key, Object | None] = field(default_factory=dict)
    """Empty if nothing can be read, as offline."""
    outcome: ChargeOutcome | None = None
    """Set if the charge has its outcome without them: the namespace has no quota, or they could not be read."""


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


Step = Judge | Finish | Ensure | Read | Charge
