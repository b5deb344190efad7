"""The report: what there is of a quota and who holds it, for people."""
