"""GPUAdmissionPolicy: what the administrator can choose."""

from policies.settings.choices import (
    DEFAULTS,
    Access,
    Configuration,
    Conversion,
    DRADriver,
    GPUAdmissionPolicy,
    Placement,
    RuleOverride,
    TaintTolerated,
    WishDefault,
)
from policies.settings.parsing import SettingsError, parse_settings

__all__ = [
    "DEFAULTS",
    "Access",
    "Configuration",
    "Conversion",
    "DRADriver",
    "GPUAdmissionPolicy",
    "Placement",
    "RuleOverride",
    "SettingsError",
    "TaintTolerated",
    "WishDefault",
    "parse_settings",
]
