"""Writes charges into GPUQuotas by compare-and-swap, before the webhook answers; the only writer."""
