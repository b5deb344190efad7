"""What an installation or upgrade of gpu-admission would meet in a cluster."""

from policies.analyses.installation.preflight.covered_pods import Coverage, webhooks_in
from policies.analyses.installation.preflight.dry_runs import DryRun, PlannedObject
from policies.analyses.installation.preflight.preflight import Facts, Preflight, preflight

__all__ = [
    "Coverage",
    "DryRun",
    "Facts",
    "PlannedObject",
    "Preflight",
    "preflight",
    "webhooks_in",
]
