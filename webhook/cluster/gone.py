"""Gone: objects that a watch has shown and that are no more.

What is created and deleted between two looks at a store was never seen by who looks; the store has seen it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policies.kubernetes.paths import lookup

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policies.kubernetes.objects import Object

__all__ = ["Gone"]

_MOST = 20_000


class Gone:
    """The uids of the last objects that are gone, or are of no interest any more, as pods that have ended."""

    def __init__(self) -> None:
        self._uids: dict[str, None] = {}

    def __contains__(self, uid: object) -> bool:
        return uid in self._uids

    def add(self, before: Iterable[Object], after: Iterable[Object]) -> None:
        """Take what there was and is not in what there is; equal names may be of another object."""
        kept = {_uid(each) for each in after}
        for each in before:
            uid = _uid(each)
            if uid and uid not in kept:
                self._uids[uid] = None
        while len(self._uids) > _MOST:
            del self._uids[next(iter(self._uids))]

    def clear(self) -> None:
        """Know of nothing that is gone."""
        self._uids.clear()


def _uid(document: Object) -> str:
    uid = lookup(document, ("metadata", "uid"))
    return uid if isinstance(uid, str) else ""
