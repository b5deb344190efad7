"""Charging: the charge of an object that is being created, and the answer to its creation."""
