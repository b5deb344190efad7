"""Analyses of a cluster: what it holds, what would change, and what is wrong."""
