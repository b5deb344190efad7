"""Usage: who holds which GPUs of a cluster, which are free, and which are free but serve no pod."""

from policies.analyses.usage.device_states import DeviceState, DeviceStates, device_states
from policies.analyses.usage.plugin_gpus import pod_use
from policies.analyses.usage.report import READ_FROM, UsageReport, usage_report
from policies.analyses.usage.usage_json import UsageJSON, usage_json

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
