"""Clusters with gpu-admission running in them, for tests and benchmarks. Not part of the product."""
