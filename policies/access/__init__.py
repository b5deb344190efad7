"""Containers that take GPUs without a request."""

from policies.access.validate import validate

__all__ = ["validate"]
