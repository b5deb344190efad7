"""The webhook entries that the API server calls, their concerns, and the failure policy of each.

`policies.admission.webhooks` says when the API server calls them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policies.request import Concern

__all__ = ["CONFIGURATIONS", "ENTRIES", "Entry", "FailurePolicy"]

CONFIGURATIONS = (
    ("MutatingWebhookConfiguration", "gpu-admission"),
    ("ValidatingWebhookConfiguration", "gpu-admission"),
)
"""The webhook configurations that `deploy/` installs: kind and name."""

FailurePolicy = Literal["Fail", "Ignore"]

_EFFECTS: frozenset[Concern] = frozenset({"conversion", "quota"})
"""The concerns that write: templates, and charges."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One webhook as the API server knows it: `<name>.gpu-admission.io`, called at `POST /<name>`."""

    name: str
    concerns: Mapping[Concern, FailurePolicy]
    """In the order of review, each with its failure policy: if a concern that fails closed fails, the object is refused; one
    that fails open is skipped with a warning."""
    mutating: bool = False
    exempt_from: tuple[Concern, ...] = ()
    """Concerns. The namespaceSelector of the entry excludes the namespaces that are exempt from all of them. In an entry that
    fails closed, these are the concerns that the namespace opted in to: an outage must not stop what is exempt."""

    @property
    def failure_policy(self) -> FailurePolicy:
        """The effect of a failed call: `Fail`, a refusal, if one of the concerns fails closed."""
        return "Fail" if "Fail" in self.concerns.values() else "Ignore"

    @property
    def side_effects(self) -> Literal["None", "NoneOnDryRun"]:
        """`NoneOnDryRun` if a concern writes to the cluster, which it never does on a dry run."""
        return "None" if _EFFECTS.isdisjoint(self.concerns) else "NoneOnDryRun"

    @property
    def webhook(self) -> str:
        """The name that kubectl shows in a refusal."""
        return f"{self.name}.gpu-admission.io"


_ENTRIES = (
    Entry("convert-pods", {"conversion": "Fail", "placement": "Ignore"}, mutating=True, exempt_from=("conversion",)),
    Entry("place-pods", {"preview": "Ignore", "placement": "Ignore"}, mutating=True),
    Entry("place-unconverted-pods", {"placement": "Ignore"}, mutating=True),
    Entry("reapply", {"reapply": "Ignore"}, mutating=True),
    Entry("workloads", {"workloads": "Ignore"}),
    Entry("claims", {"claims": "Ignore"}),
    Entry(
        "enforce-converted-pods",
        {"conversion-check": "Fail", "access": "Ignore", "quota": "Ignore"},
        exempt_from=("conversion",),
    ),
    Entry("enforce-quota", {"conversion-check": "Fail", "access": "Ignore", "quota": "Fail"}, exempt_from=("quota",)),
    Entry("check-pods", {"access": "Ignore", "quota": "Ignore"}, exempt_from=("access", "quota")),
    Entry("check-unconverted-pods", {"access": "Ignore", "quota": "Ignore"}, exempt_from=("access", "quota")),
    Entry("guard-pods", {"access": "Ignore"}, exempt_from=("access",)),
    Entry("guard-changes", {"access": "Ignore"}, exempt_from=("access",)),
    Entry("configuration", {"configuration": "Ignore"}),
    Entry("nodes", {"configuration": "Ignore"}),
)

ENTRIES = {entry.name: entry for entry in _ENTRIES}
"""By name, in the order in which the API server calls them: mutating entries one after the other, then the validating."""
