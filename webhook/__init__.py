"""Serves: everything that talks to the outside."""
