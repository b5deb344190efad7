"""Validates configuration: what makes a GPU cluster work, before it can hurt."""

from policies.configuration.leniency import lenient
from policies.configuration.validate import uses, validate

__all__ = ["lenient", "uses", "validate"]
