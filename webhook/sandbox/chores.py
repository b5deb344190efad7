"""What a write leaves to do for the controllers that every cluster has; `garbage` does it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webhook.sandbox.store import Place

__all__ = ["Adopt", "Chore", "Clear", "EndNamespace", "Orphan"]


@dataclass(frozen=True, slots=True)
class Adopt:
    """An object came that names owners; without any, it goes."""

    place: Place


@dataclass(frozen=True, slots=True)
class Orphan:
    """The object of this uid is to go without what it owns."""

    uid: str


@dataclass(frozen=True, slots=True)
class Clear:
    """The object of this uid is gone; what it owned goes too."""

    uid: str
    namespace: str
    """Where it was: its namespace may have waited for it to be gone."""


@dataclass(frozen=True, slots=True)
class EndNamespace:
    """A namespace is to go with everything in it."""

    name: str


Chore = Adopt | Orphan | Clear | EndNamespace
