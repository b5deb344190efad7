"""Measures what gpu-admission costs, always beside a control of the same run. Not part of the product."""
