"""Feature gates of NVIDIA's DRA driver 0.5. Source: its pkg/featuregates."""

from __future__ import annotations

__all__ = ["OFF_BY_DEFAULT", "ON_BY_DEFAULT"]

OFF_BY_DEFAULT = frozenset(
    {
        *("TimeSlicingSettings", "MPSSupport", "PassthroughSupport", "DynamicMIG", "NVMLDeviceHealthCheck"),
        *("DeviceMetadata", "FabricManagerPartitioning", "HostManagedIMEXDaemon", "DRAListTypeAttributes"),
        *("ConsumableShares", "AllAlpha", "AllBeta", "LoggingAlphaOptions"),
    }
)
"""All of these are alpha, except the names of whole stages."""
ON_BY_DEFAULT = frozenset(
    {
        *("IMEXDaemonsWithDNSNames", "ComputeDomainCliques", "CrashOnNVLinkFabricErrors"),
        *("ContextualLogging", "LoggingBetaOptions"),
    }
)
