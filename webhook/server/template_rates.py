"""Template rates: how many new ResourceClaimTemplates one namespace gets.

A template's name is a hash of its content, so pods with equal requests share one. A user who may create pods, or a caller
that forges reviews, could still request new content with each call. A bucket of tokens for each namespace bounds that. An
existing template takes no token.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from webhook.server.token_buckets import TokenBuckets

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["AT_ONCE", "PER_MINUTE", "TemplateRates"]

AT_ONCE = 600
"""New templates that a namespace gets without waiting, at each replica. A batch of several hundred jobs that all differ
fits in; pods that differ only in names, images or commands share a template."""
PER_MINUTE = 60
"""How fast the tokens are refilled. An unused template is swept after an hour, so three replicas keep at most
some 13,000 made-up ones of a namespace, about 13 MB of etcd."""


class TemplateRates(TokenBuckets):
    """The new templates of each namespace."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with full buckets; `clock` returns monotonic seconds."""
        super().__init__(AT_ONCE, PER_MINUTE, clock)
