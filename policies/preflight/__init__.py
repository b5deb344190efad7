"""What an installation or upgrade of gpu-admission would meet in a cluster."""

from policies.preflight.covered_pods import Coverage, coverage_json, webhooks_in
from policies.preflight.planned import Planned, Trial
from policies.preflight.preflight import Facts, Preflight, preflight

__all__ = [
    "Coverage",
    "Facts",
    "Planned",
    "Preflight",
    "Trial",
    "coverage_json",
    "preflight",
    "webhooks_in",
]
