"""Containers that take GPUs without a request."""

from policies.access.validate import checks, validate

__all__ = ["checks", "validate"]
