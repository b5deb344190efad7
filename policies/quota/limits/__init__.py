"""Limits: a GPUQuota as it is written, and what its selectors select."""
