"""Validates claims, templates, DeviceClasses and ComputeDomains before anything comes of them."""

from policies.claims.validate import validate

__all__ = ["validate"]
