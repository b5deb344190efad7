"""The documents: every namespace's GPUQuota, as it was read or written last or as it is stored."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from policies.kubernetes.paths import lookup
from policies.quota.ledger.ledger import Ledger
from policies.quota.limits.quota import NAME
from webhook.cluster.errors import APIError, Unreachable
from webhook.cluster.resources import RESOURCES

if TYPE_CHECKING:
    from policies.kubernetes.objects import Object
    from policies.quota.limits.quota import Quota
    from webhook.cluster.client import APIClient

__all__ = ["Documents", "Reading", "Swap"]

_RESOURCE = RESOURCES["GPUQuota"]
_CALL_SECONDS = 5.0
_MOST_REMEMBERED = 1024

_logger = logging.getLogger("gpu_admission.ledger")

Swap = bool | None
"""Whether a ledger was written over the version that it rests on; None where nobody knows."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A GPUQuota as it was read, and when."""

    document: Object
    quota: Quota
    ledger: Ledger
    time: str
    """In RFC 3339."""


@dataclass(slots=True)
class _Known:
    """What was read or written last."""

    document: Object
    is_trusted: bool
    """Whether it was the latest whenever that could be seen: somebody else may write the same one all the time."""
    ledger: Ledger
    """As it was read or written last, of this document or of one before."""


class Documents:
    """Reads and writes GPUQuotas, and remembers them.

    What is remembered may be outdated. It is worth trying, since a write over it succeeds only where it is not; but what
    needs no write, and every refusal, has to rest on a document that was read for it.
    """

    def __init__(self, client: APIClient) -> None:
        self._client = client
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def remembered(self, namespace: str) -> Object | None:
        """The document as it was read or written last; None where that is not worth trying."""
        known = self._known.get(namespace)
        return known.document if known is not None and known.is_trusted else None

    def ledger(self, namespace: str, document: Object) -> Ledger:
        """The ledger of a document of a namespace; charges that were there the last time are not read again."""
        known = self._known.get(namespace)
        if known is None:
            return Ledger.read(document)
        known.ledger = Ledger.read(document, known.ledger)
        return known.ledger

    def forget(self, namespace: str) -> None:
        """Know nothing of a namespace any more."""
        self._known.pop(namespace, None)

    async def read(self, namespace: str) -> Object | None:
        """The document as it is stored; None where there is none.

        Raises:
            ClusterError: it could not be read.
        """
        try:
            found: Object = await self._client.get(_RESOURCE.path(namespace, NAME), timeout=_CALL_SECONDS)
        except APIError as error:
            if not error.not_found:
                raise
            self.forget(namespace)
            return None
        known = self._known.get(namespace)
        self._remember(namespace, found, is_trusted=known is None or _version(known.document) == _version(found))
        return found

    async def swap(self, namespace: str, reading: Reading, ledger: Ledger) -> Swap:
        """Write a ledger over the version that it rests on.

        Raises:
            APIError: the API server refused it, for another reason than that the version is no longer there.
        """
        document = reading.document
        body = {**document, "status": ledger.status(reading.quota, document["metadata"].get("generation", 0))}
        is_trusted = self.remembered(namespace) is not None
        self._remember(namespace, document, is_trusted=False)
        try:
            path = _RESOURCE.path(namespace, NAME, "status")
            written: Object = await self._client.put(path, body, timeout=_CALL_SECONDS)
        except APIError as error:
            # Changed, gone, or made anew since it was read: the next read tells.
            if error.conflict or error.not_found:
                return False
            raise
        except Unreachable as error:
            # The next read tells, and a charge that is there is not made again.
            _logger.warning("no answer to a write of the ledger of %s: %s", namespace, error)
            return None
        self._remember(namespace, written, is_trusted=is_trusted)
        self._known[namespace].ledger = ledger
        return True

    def _remember(self, namespace: str, document: Object, *, is_trusted: bool) -> None:
        known = self._known.get(namespace)
        self._known[namespace] = _Known(document, is_trusted, Ledger() if known is None else known.ledger)
        self._known.move_to_end(namespace)
        if len(self._known) > _MOST_REMEMBERED:
            self._known.popitem(last=False)


def _version(document: Object) -> object:
    return lookup(document, ("metadata", "resourceVersion"))
