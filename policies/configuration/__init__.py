"""Validates the configuration of GPU clusters before it is stored."""

from policies.configuration.change import is_lenient
from policies.configuration.validate import is_configuration, uses, validate

__all__ = ["is_configuration", "is_lenient", "uses", "validate"]
