"""Validates configuration: what makes a GPU cluster work, before it can hurt."""

from policies.configuration.leniency import lenient
from policies.configuration.validate import is_configuration, uses, validate

__all__ = ["is_configuration", "lenient", "uses", "validate"]
