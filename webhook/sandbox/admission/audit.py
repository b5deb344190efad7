"""Audit annotations: what webhooks and the API server note about a request, kept for tests to look at."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from webhook.sandbox.attempt import Attempt

__all__ = ["Annotation", "Audit"]

_MOST_KEPT = 10_000


@dataclass(frozen=True, slots=True)
class Annotation:
    """One note about one write."""

    operation: str
    kind: str
    namespace: str
    name: str
    key: str
    """`<webhook>/<key>` of a webhook's own; `mutation.webhook.admission.k8s.io/round_0_index_0` and the like."""
    value: str


class Audit:
    """The latest annotations of all requests, oldest first."""

    def __init__(self) -> None:
        self.annotations: deque[Annotation] = deque(maxlen=_MOST_KEPT)

    def note(self, attempt: Attempt, key: str, value: str) -> None:
        """Keep an annotation."""
        about = (attempt.operation, attempt.resource.kind, attempt.namespace, attempt.name)
        self.annotations.append(Annotation(*about, key, value))

    def values(self, key: str) -> list[str]:
        """All that was noted under a key."""
        return [annotation.value for annotation in self.annotations if annotation.key == key]
