"""From a checked expression to values, and to what they cost."""
