"""Usage: who holds which GPUs of a cluster, which are free, and which are free but serve no pod."""

from policies.analyses.usage.held_gpus import pod_use
from policies.analyses.usage.usage_json import UsageJSON, usage_json
from policies.analyses.usage.usage_report import (
    READ_FROM,
    DeviceState,
    DeviceStates,
    UsageReport,
    device_states,
    usage_report,
)

__all__ = [
    "READ_FROM",
    "DeviceState",
    "DeviceStates",
    "UsageJSON",
    "UsageReport",
    "device_states",
    "pod_use",
    "usage_json",
    "usage_report",
]
