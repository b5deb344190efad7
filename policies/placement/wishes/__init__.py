"""Wishes: what GPU a pod wants, read from its annotations and kept on the nodes that have it."""

from policies.placement.wishes.wished import Wished, says_anything, wish_problems, wished

__all__ = ["Wished", "says_anything", "wish_problems", "wished"]
