"""Wishes: what GPU a pod wants, in words that outlive labels and APIs.

A wish is read from annotations (`gpu-admission.io/product: H100*`) and rendered twice: to a predicate on devices here,
and to conditions on node labels in `policies.placement`. Both select the same GPUs.
"""

from __future__ import annotations

from policies.nvidia.wishes.errors import WishError
from policies.nvidia.wishes.product_patterns import ProductPatterns
from policies.nvidia.wishes.wish import WORDS, Wish

__all__ = ["WORDS", "ProductPatterns", "Wish", "WishError"]
