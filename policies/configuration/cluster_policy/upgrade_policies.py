"""Upgrade policies: how a ClusterPolicy and an NVIDIADriver say that drivers are upgraded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from policies.kubernetes.paths import FieldPath, lookup

if TYPE_CHECKING:
    from policies.configuration.change import Change

__all__ = ["UpgradePolicy", "percentage", "upgrade_policy", "whole_number"]

_PERCENTAGE = re.compile(r"([+-]?[0-9]{1,9})%")
_WHOLE_NUMBER = re.compile(r"[+-]?[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class UpgradePolicy:
    """The `upgradePolicy` of an object, wherever its kind has it."""

    fields: dict[str, Any]
    path: FieldPath
    runs: bool
    """Whether upgrades are done by themselves; without, the rest of the policy is not read."""

    def value(self, *steps: str) -> Any:
        """What is at a path of the policy; None where nothing is."""
        return lookup(self.fields, steps)

    def text(self, *steps: str) -> str:
        """The text at a path of the policy; empty where there is none."""
        value = self.value(*steps)
        return value if isinstance(value, str) else ""

    def number(self, *steps: str) -> int | None:
        """The whole number at a path of the policy; None where there is none."""
        value = self.value(*steps)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    def at(self, *steps: str) -> FieldPath:
        """The path of a field, as the object has it."""
        return FieldPath((*self.path, *steps))


def upgrade_policy(change: Change) -> UpgradePolicy | None:
    """The upgrade policy of a ClusterPolicy or an NVIDIADriver; None where there is none, or nobody reads it.

    A ClusterPolicy that leaves the driver to the host or to NVIDIADrivers has an upgrade policy in vain.
    """
    steps = {"ClusterPolicy": ("driver", "upgradePolicy"), "NVIDIADriver": ("upgradePolicy",)}.get(change.kind)
    if steps is None:
        return None
    fields = change.mapping(*steps)
    by_default = change.kind == "NVIDIADriver"
    if not fields or (not by_default and not _drives(change)):
        return None
    return UpgradePolicy(fields, change.at(*steps), change.flag(*steps, "autoUpgrade", default=by_default))


def _drives(change: Change) -> bool:
    return change.flag("driver", "enabled", default=True) and not change.flag("driver", "useNvidiaDriverCRD")


def percentage(value: Any) -> int | None:
    """The number of a percentage such as "25%"; None for what Kubernetes does not read as one."""
    match = _PERCENTAGE.fullmatch(value) if isinstance(value, str) else None
    return int(match[1]) if match else None


def whole_number(text: str) -> int | None:
    """The number that a text is; None for what Go does not read as a whole number."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None
