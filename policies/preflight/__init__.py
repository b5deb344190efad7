"""What an installation or upgrade of gpu-admission would meet in a cluster."""

from policies.preflight.covered_pods import Coverage, webhooks_in
from policies.preflight.planned_objects import DryRun, PlannedObject
from policies.preflight.preflight import Facts, Preflight, preflight

__all__ = [
    "Coverage",
    "DryRun",
    "Facts",
    "PlannedObject",
    "Preflight",
    "preflight",
    "webhooks_in",
]
