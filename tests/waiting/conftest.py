"""Clusters of the tests of explanations."""

from tests.explanation.conftest import k8s

__all__ = ["k8s"]
