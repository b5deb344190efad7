"""Template rates: how many new ResourceClaimTemplates one namespace gets.

A template's name is a hash of its content, so pods with equal requests share one. A user who may create pods, or a caller
that forges reviews, could still request new content with each call. A bucket of tokens for each namespace bounds that. An
existing template takes no token.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AT_ONCE", "PER_MINUTE", "TemplateRates"]

AT_ONCE = 600
"""New templates that a namespace gets without waiting, at each replica. A batch of several hundred jobs that all differ
fits in; pods that differ only in names, images or commands share a template."""
PER_MINUTE = 60
"""How fast the tokens are refilled. An unused template is swept after an hour, so three replicas keep at most
some 13,000 made-up ones of a namespace, about 13 MB of etcd."""

_SECONDS = 60 / PER_MINUTE
"""Between two tokens."""
_FULL_AGAIN = AT_ONCE * _SECONDS
_MOST_NAMESPACES = 4096
"""Namespaces that opted in and got new templates within ten minutes; of more, the one that was longest without is
forgotten, and starts anew."""


class TemplateRates:
    """The tokens of each namespace."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with full buckets; `clock` returns monotonic seconds."""
        self._clock = clock
        self._full_at: OrderedDict[str, float] = OrderedDict()
        """When the bucket of a namespace is full again, those that took a token last at the end; full ones are left out."""

    def take(self, namespace: str) -> bool:
        """Take a token of a namespace; False if none is left."""
        if self.seconds_until_next(namespace):
            return False
        self._set(namespace, self._seconds_until_full(namespace) + _SECONDS)
        self._forget_full()
        return True

    def give_back(self, namespace: str) -> None:
        """Give a token back that was not needed."""
        self._set(namespace, self._seconds_until_full(namespace) - _SECONDS)

    def seconds_until_next(self, namespace: str) -> int:
        """Whole seconds until there is a token; 0 if there is one."""
        return max(0, math.ceil(self._seconds_until_full(namespace) + _SECONDS - _FULL_AGAIN))

    def __len__(self) -> int:
        return len(self._full_at)

    def _seconds_until_full(self, namespace: str) -> float:
        """Seconds until the bucket is full."""
        return max(0.0, self._full_at.get(namespace, 0.0) - self._clock())

    def _set(self, namespace: str, missing: float) -> None:
        self._full_at[namespace] = self._clock() + missing
        self._full_at.move_to_end(namespace)

    def _forget_full(self) -> None:
        """Forget the buckets at the front that are full again, and those beyond the bound."""
        now = self._clock()
        while self._full_at:
            namespace, full_at = next(iter(self._full_at.items()))
            if full_at > now and len(self._full_at) <= _MOST_NAMESPACES:
                return
            del self._full_at[namespace]
