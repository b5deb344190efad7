"""Wishes: what GPU a pod wants, read from its annotations and kept on the nodes that have it."""

from policies.placement.wishes.annotations import read_wishes
from policies.placement.wishes.pod_wishes import PodWishes

__all__ = ["PodWishes", "read_wishes"]
