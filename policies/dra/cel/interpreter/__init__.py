"""From a checked expression to values: a fast way, and an exact one that counts."""
