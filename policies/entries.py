"""The webhook entries: one concern each, with its own path and its own failure mode.

`policies.webhooks` says when the API server calls them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["CONFIGURATIONS", "ENTRIES", "Concern", "Entry"]

CONFIGURATIONS = (
    ("MutatingWebhookConfiguration", "gpu-admission"),
    ("ValidatingWebhookConfiguration", "gpu-admission"),
)
"""The webhook configurations that `deploy/` installs: kind and name."""

Concern = Literal["conversion", "access", "quota"]
"""What administrators can exempt a namespace from; `policies.settings.exempt_namespaces` says which are exempt."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One webhook as the API server knows it: `<name>.gpu-admission.io`, called at `POST /<name>`."""

    name: str
    mutating: bool
    failure_policy: Literal["Fail", "Ignore"]
    """What a failed call means, and with it what a handler that fails must answer."""
    side_effects: Literal["None", "NoneOnDryRun"] = "None"
    concern: Concern | None = None
    """None if no setting exempts a namespace from it."""

    @property
    def webhook(self) -> str:
        """The name that kubectl shows in a refusal."""
        return f"{self.name}.gpu-admission.io"


ENTRIES = {
    entry.name: entry
    for entry in (
        Entry("conversion", mutating=True, failure_policy="Fail", side_effects="NoneOnDryRun", concern="conversion"),
        Entry("preview", mutating=True, failure_policy="Ignore", concern="conversion"),
        Entry("placement", mutating=True, failure_policy="Ignore"),
        Entry("reapply", mutating=True, failure_policy="Ignore"),
        Entry("conversion-check", mutating=False, failure_policy="Fail", concern="conversion"),
        Entry("access", mutating=False, failure_policy="Ignore", concern="access"),
        Entry("workloads", mutating=False, failure_policy="Ignore"),
        Entry("claims", mutating=False, failure_policy="Ignore"),
        Entry("quota-enforced", mutating=False, failure_policy="Fail", side_effects="NoneOnDryRun", concern="quota"),
        Entry("quota", mutating=False, failure_policy="Ignore", side_effects="NoneOnDryRun", concern="quota"),
        Entry("configuration", mutating=False, failure_policy="Ignore"),
        Entry("nodes", mutating=False, failure_policy="Ignore"),
    )
}
"""In the order in which the API server asks them: mutating entries one after the other, then the validating."""
