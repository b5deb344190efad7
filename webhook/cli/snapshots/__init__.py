"""Snapshots: a running cluster in files, with what `--cluster` reads and without secrets."""
