"""Reads, writes and caches the objects whose status is a ledger: GPUQuotas and GPUQuotaGroups."""

from __future__ import annotations

import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from policies.kubernetes.objects import lookup
from policies.quota.ledger.ledger import Ledger
from policies.quota.limits.quota import GROUP, QUOTA_NAME, parse_quota
from webhook.cluster.answers import APIError, Unreachable
from webhook.cluster.lists import get_if_exists
from webhook.cluster.resources import RESOURCES
from webhook.cluster.store import is_older

if TYPE_CHECKING:
    from collections.abc import Callable

    from policies.kubernetes.objects import Object
    from policies.kubernetes.view import ClusterView
    from policies.quota.limits.quota import Quota
    from webhook.cluster.client import APIClient


_CALL_SECONDS = 5.0
_MOST_CACHED = 1024

_logger = logging.getLogger("gpu_admission.ledger")

Swap = bool | None
"""True if a ledger replaced the version that it is based on, False on a conflict, None if the result is unknown."""


class LedgerKey(NamedTuple):
    """Identifies the object whose status is a ledger."""

    kind: str
    """`GPUQuota` or `GPUQuotaGroup`."""
    namespace: str
    """Empty for a GPUQuotaGroup."""
    name: str

    @classmethod
    def of_namespace(cls, namespace: str) -> LedgerKey:
        """The GPUQuota of a namespace."""
        return cls("GPUQuota", namespace, QUOTA_NAME)

    @classmethod
    def of_group(cls, name: str) -> LedgerKey:
        """A GPUQuotaGroup."""
        return cls(GROUP, "", name)

    def path(self, subresource: str = "") -> str:
        """The path of the object, or of its subresource.

        Raises:
            KeyError: The kind has no ledger.
            ValueError: The namespace or the name is invalid.
        """
        return RESOURCES[self.kind].path(self.namespace, self.name, subresource)

    def shown_object(self, view: ClusterView) -> Object | None:
        """The object as a view shows it; None if it does not exist or is unknown."""
        found = view.get(self.kind, self.name, self.namespace)
        return found if isinstance(found, dict) else None

    @property
    def label(self) -> str:
        """`GPUQuota gpu of namespace team-a`, `GPUQuotaGroup research`."""
        return f"{self.kind} {self.name}{f' of namespace {self.namespace}' if self.namespace else ''}"

    def __str__(self) -> str:
        """`team-a`, `GPUQuotaGroup research`."""
        return self.namespace or f"{self.kind} {self.name}"


class Spec(NamedTuple):
    """Identifies the spec of a GPUQuota or GPUQuotaGroup."""

    uid: str
    generation: int

    @classmethod
    def of(cls, document: Object) -> Spec:
        """The spec of a stored GPUQuota."""
        return cls(lookup(document, ("metadata", "uid")), lookup(document, ("metadata", "generation")))


@dataclass(frozen=True, slots=True)
class Reading:
    """A GPUQuota, and the time it was read."""

    document: Object
    quota: Quota
    ledger: Ledger
    time: str
    """In RFC 3339."""


@dataclass(slots=True)
class _CachedQuota:
    """The object of the last read or write."""

    document: Object
    is_trusted: bool
    """False if a read showed a newer version than the cached one, because another replica writes it too and the watch is
    behind."""
    ledger: Ledger
    """The last parsed ledger, of this document or of an earlier one."""
    is_parsed: bool = False
    """True if it is the ledger of this document."""


class Documents:
    """Reads, writes and caches objects with ledgers.

    A cached document may be outdated. A write based on it is safe, because it succeeds only if the document is the
    latest. An answer without a write, and every refusal, needs a document that was read for it.

    Args:
        client: Reads and writes them.
        shown: Returns the object of a key that a watch shows, if any. It need not have all metadata.
    """

    def __init__(self, client: APIClient, shown: Callable[[LedgerKey], Object | None]) -> None:
        self._client = client
        self.shown = shown
        """Returns the object of a key that a watch shows, if any."""
        self._cache: OrderedDict[LedgerKey, _CachedQuota] = OrderedDict()

    def cached_document(self, key: LedgerKey) -> Object | None:
        """The latest document that was read, written or watched; None if it is probably outdated."""
        cached, shown = self._cache.get(key), self.shown(key)
        if shown is not None and (cached is None or is_older(_version(cached.document), _version(shown))):
            self._remember(key, shown, is_trusted=True)
            return shown
        return cached.document if cached is not None and cached.is_trusted else None

    def parse(self, key: LedgerKey, document: Object, time: str) -> Reading:
        """Parse a document of a ledger, with the charges that were parsed the last time.

        May run in a thread, while a newer document is cached.

        Raises:
            QuotaError: the stored GPUQuota is invalid.
        """
        quota, cached = parse_quota(document), self._cache.get(key)
        is_cached = cached is not None and cached.document is document
        ledger = None if cached is None else cached.ledger
        if ledger is None or not (is_cached and cached is not None and cached.is_parsed):
            ledger = Ledger.read(document, ledger)
        if cached is not None and is_cached:
            cached.ledger, cached.is_parsed = ledger, True
        return Reading(document, quota, ledger, time)

    def forget(self, key: LedgerKey) -> None:
        """Remove a ledger from the cache."""
        self._cache.pop(key, None)

    async def read(self, key: LedgerKey) -> Object | None:
        """Read the stored document; None if it does not exist.

        Raises:
            ClusterError: the read failed.
        """
        path = key.path()
        found: Object | None = await get_if_exists(self._client, path, timeout=_CALL_SECONDS)
        if found is None:
            self.forget(key)
            return None
        cached = self._cache.get(key)
        self._remember(key, found, is_trusted=cached is None or _version(cached.document) == _version(found))
        return found

    async def swap(self, key: LedgerKey, reading: Reading, ledger: Ledger) -> Swap:
        """Replace the ledger, if the stored document is still the version that was read.

        Raises:
            APIError: the API server refused the write for another reason than a conflict.
        """
        document = reading.document
        generation = document["metadata"].get("generation", 0)
        body = {**document, "status": ledger.status(reading.quota, generation)}
        is_trusted = self.cached_document(key) is not None
        self._remember(key, document, is_trusted=False)
        try:
            path = key.path("status")
            written: Object = await self._client.put(path, body, timeout=_CALL_SECONDS)
        except APIError as error:
            # Changed, deleted or recreated since it was read; the next read shows which.
            if error.is_conflict or error.is_not_found:
                return False
            raise
        except Unreachable as error:
            # The next read shows the result; a charge that is on the ledger is not written twice.
            _logger.warning("no response to a write of the ledger of %s: %s", key, error)
            return None
        self._remember(key, written, is_trusted=is_trusted)
        cached = self._cache[key]
        # The API server may have changed it: another CRD drops fields that it does not know.
        cached.ledger, cached.is_parsed = ledger, lookup(written, ("status",)) == body["status"]
        return True

    def _remember(self, key: LedgerKey, document: Object, *, is_trusted: bool) -> None:
        cached = self._cache.get(key)
        self._cache[key] = _CachedQuota(document, is_trusted, Ledger() if cached is None else cached.ledger)
        self._cache.move_to_end(key)
        if len(self._cache) > _MOST_CACHED:
            self._cache.popitem(last=False)


def _version(document: Object) -> str:
    return str(lookup(document, ("metadata", "resourceVersion")))
