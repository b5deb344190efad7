"""Counting: what there is, by the limits of a quota."""
