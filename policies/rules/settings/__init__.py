"""GPUAdmissionPolicy: what the administrator can choose."""

from policies.rules.settings.choices import (
    DEFAULTS,
    Access,
    AddedKind,
    AlignedNIC,
    Configuration,
    Conversion,
    DRADriver,
    Exemption,
    Explanations,
    GPUAdmissionPolicy,
    Placement,
    Quotas,
    ReplicaWeight,
    RuleOverride,
    TaintTolerated,
    WishDefault,
    Workloads,
)
from policies.rules.settings.exemptions import ExemptPolicy, settings_for
from policies.rules.settings.parsing import SettingsError, parse_settings

__all__ = [
    "DEFAULTS",
    "Access",
    "AddedKind",
    "AlignedNIC",
    "Configuration",
    "Conversion",
    "DRADriver",
    "ExemptPolicy",
    "Exemption",
    "Explanations",
    "GPUAdmissionPolicy",
    "Placement",
    "Quotas",
    "ReplicaWeight",
    "RuleOverride",
    "SettingsError",
    "TaintTolerated",
    "WishDefault",
    "Workloads",
    "parse_settings",
    "settings_for",
]
