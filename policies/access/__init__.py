"""Finds containers that take GPUs behind the scheduler's back."""

from policies.access.validate import validate

__all__ = ["validate"]
