"""What an installation or upgrade of gpu-admission would meet in a cluster."""

from policies.preflight.check import Check, Status
from policies.preflight.covered_pods import Coverage, coverage_json, webhooks_in
from policies.preflight.planned import Planned, Trial
from policies.preflight.preflight import Facts, Preflight, preflight

__all__ = [
    "Check",
    "Coverage",
    "Facts",
    "Planned",
    "Preflight",
    "Status",
    "Trial",
    "coverage_json",
    "preflight",
    "webhooks_in",
]
