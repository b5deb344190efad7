"""Clusters of the tests of explanations."""

from tests.explain.conftest import k8s

__all__ = ["k8s"]
