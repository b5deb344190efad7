"""Applying and deleting the installed webhook configurations, in the order of docs/upgrade.md."""
