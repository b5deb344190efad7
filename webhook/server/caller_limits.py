"""Token buckets: how often something may be done for each key."""

from __future__ import annotations

import json
import math
import time
from collections import Counter, OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import hdrs, web

from webhook.server.tls import peer_name

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from policies.admission import Entry


_MOST_KEYS = 4096
"""Of more, the one that was longest without a token is forgotten, and starts anew."""


class TokenBuckets:
    """A bucket of tokens for each key."""

    def __init__(self, burst: int, per_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with full buckets.

        Args:
            burst: The tokens in a full bucket.
            per_minute: How fast they are refilled.
            clock: Returns monotonic seconds.
        """
        self._clock = clock
        self._seconds = 60 / per_minute
        """Between two tokens."""
        self._full_again = burst * self._seconds
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """When the bucket of a key is full again, those that took a token last at the end; full ones are left out."""

    def take(self, key: str) -> bool:
        """Take a token of a key; False if none is left."""
        if self.seconds_until_next(key):
            return False
        self._set(key, self._seconds_until_full(key) + self._seconds)
        self._forget_full()
        return True

    def give_back(self, key: str) -> None:
        """Give a token back that was not needed."""
        self._set(key, self._seconds_until_full(key) - self._seconds)

    def seconds_until_next(self, key: str) -> int:
        """Whole seconds until there is a token; 0 if there is one."""
        return max(0, math.ceil(self._seconds_until_full(key) + self._seconds - self._full_again))

    def __len__(self) -> int:
        return len(self._full_at)

    def _seconds_until_full(self, key: str) -> float:
        """Seconds until the bucket is full."""
        return max(0.0, self._full_at.get(key, 0.0) - self._clock())

    def _set(self, key: str, missing: float) -> None:
        self._full_at[key] = self._clock() + missing
        self._full_at.move_to_end(key)

    def _forget_full(self) -> None:
        """Forget the buckets at the front that are full again, and those beyond the bound."""
        now = self._clock()
        while self._full_at:
            key, full_at = next(iter(self._full_at.items()))
            if full_at > now and len(self._full_at) <= _MOST_KEYS:
                return
            del self._full_at[key]


class CallerLimit(NamedTuple):
    """A limit on the open calls that are counted under one key."""

    key: Hashable
    """The property that the callers have in common, such as their user name or their namespace."""
    most: int
    refusal: str
    """One sentence for a caller beyond the limit."""


class CallerLimits:
    """Refuses calls beyond limits on open calls, and beyond the rate of a user."""

    def __init__(self, burst: int, per_minute: int, too_often: str, retry_after: int) -> None:
        """Count no call yet.

        Args:
            burst: Calls that a user may make at once.
            per_minute: Calls that a user may make in a minute after that.
            too_often: One sentence for a user who calls more often.
            retry_after: Seconds after which a caller beyond a limit on open calls may try again.
        """
        self._rates = TokenBuckets(burst, per_minute)
        self._too_often = too_often
        self._retry = {hdrs.RETRY_AFTER: str(retry_after)}
        self._open: Counter[Hashable] = Counter()

    def count(self, key: Hashable) -> int:
        """The number of open calls that are counted under a key."""
        return self._open[key]

    @contextmanager
    def hold_place(self, user: str, limits: Sequence[CallerLimit]) -> Iterator[None]:
        """Count a call of a user under the keys of its limits until it ends.

        Raises:
            web.HTTPTooManyRequests: A limit is reached; the text is one sentence.
        """
        for limit in limits:
            if self._open[limit.key] >= limit.most:
                raise web.HTTPTooManyRequests(text=limit.refusal, headers=self._retry)
        if not self._rates.take(user):
            seconds = str(self._rates.seconds_until_next(user))
            raise web.HTTPTooManyRequests(text=self._too_often, headers={hdrs.RETRY_AFTER: seconds})
        self._open.update(limit.key for limit in limits)
        try:
            yield
        finally:
            for limit in limits:
                self._open[limit.key] -= 1
                # Keys without open calls are dropped, so that memory does not grow with every user.
                if not self._open[limit.key]:
                    del self._open[limit.key]


AT_ONCE = 600
"""New templates that a namespace gets without waiting, at each replica. A batch of several hundred jobs that all differ
fits in; pods that differ only in names, images or commands share a template."""
PER_MINUTE = 60
"""Tokens that are refilled in a minute. An unused template is swept after an hour, so three replicas keep at most
some 13,000 made-up ones of a namespace, about 13 MB of etcd."""


class TemplateRates(TokenBuckets):
    """The new templates of each namespace."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with full buckets; `clock` returns monotonic seconds."""
        super().__init__(AT_ONCE, PER_MINUTE, clock)


_STRANGERS = "strangers"
_LEVERS = (
    (
        f"create ResourceClaimTemplates in namespaces that convert (at most {AT_ONCE} new ones at once and {PER_MINUTE} a "
        "minute in each, swept after an hour)"
    ),
    ("reserve the rest of a GPUQuota for two minutes, repeatedly, so that pods of its namespace are refused"),
    (
        "learn what GPUs the cluster has, how much of each GPUQuota is used and by how many pods and claims; and by which "
        "ones if quota.nameHolders is Always"
    ),
    "use up the CPU time of this replica by reviews",
)
"""Everything that an unauthenticated caller can do, for `/readyz`, the log and docs/security.md."""

_NO_CLIENT_CA = (
    f"no client CA is configured, so every client that reaches this port can: {'; '.join(_LEVERS)}. To prevent it, configure a "
    "client CA (docs/client-certificates.md), or let a NetworkPolicy admit the API server only"
)


@dataclass(frozen=True, slots=True)
class Callers:
    """The clients whose calls may have effects, such as writing a template.

    Every pod of a cluster can reach a webhook's Service, and a forged review would have the effects of a real one.
    Entries without effects answer every caller: they show which GPUs the cluster has and how much of a quota is left,
    but not the holders. `ExplainGate` protects explanations.
    """

    allowed: frozenset[str] | None = None
    """Common names of client certificates; None if no client CA is configured, so that every client may call."""

    def refusal(self, entry: Entry, transport: asyncio.BaseTransport | None) -> str:
        """The reason why a call of an entry is refused, as one sentence; empty if it is allowed."""
        if self.allowed is None or entry.side_effects == "None":
            return ""
        name = peer_name(transport)
        if name is None:
            why = (
                "this one showed no certificate with a common name; give the API server a client certificate for this "
                "webhook."
            )
        elif name not in self.allowed:
            shown = json.dumps(name[:100])
            why = f"{shown} is not one of them; add the name to the allowed ones if it is the API server's."
        else:
            return ""
        return f"/{entry.name} has effects and answers only to known clients, and {why}"

    def knows(self, transport: asyncio.BaseTransport | None) -> bool:
        """True if the caller showed the certificate of an allowed client."""
        return self.allowed is not None and peer_name(transport) in self.allowed

    def payer(self, transport: asyncio.BaseTransport | None, address: str) -> str:
        """The payer of a call's memory: one for all known clients, one for all others.

        Without a client CA, each address is a payer of its own.
        """
        if self.allowed is None:
            return address
        return "" if self.knows(transport) else _STRANGERS

    def notes(self) -> list[str]:
        """Notes for the administrator about the clients that may call."""
        if self.allowed is not None:
            return []
        return [_NO_CLIENT_CA]
