"""Checks of our own that `make lint` runs."""
